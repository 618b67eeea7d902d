"""Local differential privacy: mechanisms with their exact privacy loss and unbiased estimators."""
