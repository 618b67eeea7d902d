"""The rows of a comparison of rating models by name, each with the settings that make it.

Source: FedGNN (Wu et al., 2021), Table 3 and Figure 4 (GGNN, GCN and GAT).
Differs: the global mean, the user's mean and user plus item bias, which the paper leaves out, are
    rows; FedGNN has a row for each network, one with local noise, and one with the paper's own
    hyper-parameters.
"""

from recsys.variants import Variant

_NETWORKS = (("ggnn", "GGNN"), ("gcn", "GCN"), ("gat", "GAT"))

RATING_VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("global-mean", "Global mean", {"model": "global-mean"}, searched=False),
        Variant("user-mean", "User's mean", {"model": "user-mean"}, searched=False),
        Variant("bias", "User + item bias", {"model": "bias"}),
        Variant("pmf", "PMF (central)", {"model": "pmf"}),
        Variant("svdpp", "SVD++ (central)", {"model": "svdpp"}),
        Variant("grals", "GRALS (central)", {"model": "grals"}),
        Variant("srgcnn", "sRGCNN (central)", {"model": "srgcnn"}),
        Variant("gcmc", "GC-MC (central)", {"model": "gcmc"}),
        Variant("pinsage", "PinSage (central)", {"model": "pinsage"}),
        Variant("ngcf", "NGCF (central)", {"model": "ngcf"}),
        Variant("fcf", "FCF (federated)", {"model": "fcf"}),
        Variant("fedmf", "FedMF (federated, Paillier)", {"model": "fedmf"}),
        Variant("fedgnn", "FedGNN", {"model": "fedgnn"}),
        *(
            Variant(f"fedgnn-{gnn}", f"FedGNN, {title}", {"model": "fedgnn", "gnn": gnn})
            for gnn, title in _NETWORKS
        ),
        Variant(
            "fedgnn-ldp",
            "FedGNN, clip and Laplace noise",
            {"model": "fedgnn", "preset": "default-ldp"},
            searched=False,
        ),
        Variant(
            "fedgnn-paper",
            "FedGNN, the paper's hyper-parameters",
            {"model": "fedgnn", "preset": "paper"},
            searched=False,
        ),
    )
}

ROWS = tuple(name for name in RATING_VARIANTS if name != "fedgnn")
"""The rows of a comparison unless told otherwise: ``fedgnn`` is one of the networks by default."""
