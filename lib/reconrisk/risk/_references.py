"""Publications that a report's sentences rely on: standards, thresholds, facts from the field."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["REFERENCES", "Reference"]


@dataclass(frozen=True)
class Reference:
    """A publication that a sentence of the report cites.

    Attributes
    ----------
    key, short : str
        Its name in JSON, and in a sentence.
    citation, url : str
    """

    key: str
    short: str
    citation: str
    url: str


_ALL = (
    Reference(
        "nist2025",
        "NIST SP 800-226",
        "Near, Darais, Lefkovitz, Howarth: Guidelines for Evaluating Differential Privacy "
        "Guarantees. NIST SP 800-226, 2025",
        "https://doi.org/10.6028/NIST.SP.800-226",
    ),
    Reference(
        "ponomareva2023",
        "Ponomareva et al. 2023",
        "Ponomareva et al.: How to DP-fy ML. Journal of Artificial Intelligence Research 77, 2023",
        "https://doi.org/10.1613/jair.1.14649",
    ),
    Reference(
        "wp216",
        "WP29 Opinion 05/2014",
        "Article 29 Data Protection Working Party: Opinion 05/2014 on Anonymisation Techniques, "
        "WP 216, 2014",
        "https://ec.europa.eu/justice/article-29/documentation/opinion-recommendation/files/2014/"
        "wp216_en.pdf",
    ),
    Reference(
        "edpb2024",
        "EDPB Opinion 28/2024",
        "European Data Protection Board: Opinion 28/2024 on certain data protection aspects "
        "related to the processing of personal data in the context of AI models, 2024",
        "https://www.edpb.europa.eu/our-work-tools/our-documents/"
        "opinion-board-art-64/opinion-282024-certain-data-protection-aspects_en",
    ),
    Reference(
        "ema2017",
        "EMA Policy 0070",
        "European Medicines Agency: External guidance on the implementation of Policy 0070, "
        "EMA/90915/2016, version 1.3, 2017, on the anonymisation of clinical reports",
        "https://www.ema.europa.eu/en/human-regulatory-overview/marketing-authorisation/"
        "clinical-data-publication",
    ),
    Reference(
        "kulynych2025",
        "Kulynych et al. 2025",
        "Kulynych, Gomez, Kaissis, Hayes, Balle, Calmon, Raisaro: Unifying Re-Identification, "
        "Attribute Inference, and Data Reconstruction Risks in Differential Privacy. NeurIPS 2025",
        "https://arxiv.org/abs/2507.06969",
    ),
    Reference(
        "gomez2025",
        "Gomez et al. 2025",
        "Gomez, Kulynych, Kaissis, Calmon, Hayes, Balle, Honkela: Gaussian DP for Reporting "
        "Differential Privacy Guarantees in Machine Learning. 2025",
        "https://arxiv.org/abs/2503.10945",
    ),
    Reference(
        "annamalai2024",
        "Annamalai 2024",
        "Annamalai: It's Our Loss: No Privacy Amplification for Hidden State DP-SGD With "
        "Non-Convex Loss. 2024",
        "https://arxiv.org/abs/2407.06496",
    ),
    Reference(
        "chua2024",
        "Chua et al. 2024",
        "Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang: How Private are DP-SGD "
        "Implementations? ICML 2024",
        "https://arxiv.org/abs/2403.17673",
    ),
    Reference(
        "sun2023",
        "Sun et al. 2023",
        "Sun et al.: Privacy Assessment on Reconstructed Images: Are Existing Evaluation Metrics "
        "Faithful to Human Perception? NeurIPS 2023",
        "https://arxiv.org/abs/2309.13038",
    ),
)

#: Publications by their key, in the order in which a report lists them.
REFERENCES = MappingProxyType({r.key: r for r in _ALL})
