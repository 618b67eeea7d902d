"""Rating prediction: settings, protection and aggregation of gradients, experiments, reports."""
