"""The papers behind an architecture, chosen by its configuration."""

from dataclasses import dataclass, replace

from transformers import PreTrainedConfig


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        about: how a sentence names it.
        bibtex: its entry.
    """

    about: str
    bibtex: str


VASWANI = Paper(
    "*Attention Is All You Need* (Vaswani et al., 2017)",
    r"""@inproceedings{vaswani2017attention,
  title     = {Attention Is All You Need},
  author    = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and
               Gomez, Aidan N. and Kaiser, {\L}ukasz and Polosukhin, Illia},
  booktitle = {Advances in Neural Information Processing Systems 30},
  year      = {2017},
  url       = {https://arxiv.org/abs/1706.03762}
}""",
)
DEVLIN = Paper(
    "*BERT* (Devlin et al., 2019)",
    r"""@inproceedings{devlin2019bert,
  title     = {{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author    = {Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle = {Proceedings of the 2019 Conference of the North American Chapter of the Association for
               Computational Linguistics: Human Language Technologies},
  pages     = {4171--4186},
  year      = {2019},
  url       = {https://aclanthology.org/N19-1423}
}""",
)
RADFORD = Paper(
    "*GPT* (Radford et al., 2018)",
    r"""@techreport{radford2018improving,
  title       = {Improving Language Understanding by Generative Pre-Training},
  author      = {Radford, Alec and Narasimhan, Karthik and Salimans, Tim and Sutskever, Ilya},
  institution = {OpenAI},
  year        = {2018}
}""",
)
SU = Paper(
    "rotary positions (Su et al., 2021)",
    r"""@misc{su2021roformer,
  title  = {{RoFormer}: Enhanced Transformer with Rotary Position Embedding},
  author = {Su, Jianlin and Lu, Yu and Pan, Shengfeng and Murtadha, Ahmed and Wen, Bo and Liu, Yunfeng},
  year   = {2021},
  url    = {https://arxiv.org/abs/2104.09864}
}""",
)
ZHANG = Paper(
    "RMSNorm (Zhang and Sennrich, 2019)",
    r"""@inproceedings{zhang2019root,
  title     = {Root Mean Square Layer Normalization},
  author    = {Zhang, Biao and Sennrich, Rico},
  booktitle = {Advances in Neural Information Processing Systems 32},
  year      = {2019},
  url       = {https://arxiv.org/abs/1910.07467}
}""",
)
SHAZEER = Paper(
    "gated feed-forward layers (Shazeer, 2020)",
    r"""@misc{shazeer2020glu,
  title  = {{GLU} Variants Improve Transformer},
  author = {Shazeer, Noam},
  year   = {2020},
  url    = {https://arxiv.org/abs/2002.05202}
}""",
)
AINSLIE = Paper(
    "grouped-query attention (Ainslie et al., 2023)",
    r"""@inproceedings{ainslie2023gqa,
  title     = {{GQA}: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints},
  author    = {Ainslie, Joshua and Lee-Thorp, James and de Jong, Michiel and Zemlyanskiy, Yury and
               Lebr{\'o}n, Federico and Sanghai, Sumit},
  booktitle = {Proceedings of the 2023 Conference on Empirical Methods in Natural Language Processing},
  year      = {2023},
  url       = {https://arxiv.org/abs/2305.13245}
}""",
)
IYYER = Paper(
    "the deep averaging network (Iyyer et al., 2015)",
    r"""@inproceedings{iyyer2015deep,
  title     = {Deep Unordered Composition Rivals Syntactic Methods for Text Classification},
  author    = {Iyyer, Mohit and Manjunatha, Varun and Boyd-Graber, Jordan and Daum{\'e} III, Hal},
  booktitle = {Proceedings of the 53rd Annual Meeting of the Association for Computational Linguistics and the
               7th International Joint Conference on Natural Language Processing},
  pages     = {1681--1691},
  year      = {2015},
  url       = {https://aclanthology.org/P15-1162}
}""",
)
XIONG = Paper(
    "normalisation before each sublayer (Xiong et al., 2020)",
    r"""@inproceedings{xiong2020layer,
  title     = {On Layer Normalization in the Transformer Architecture},
  author    = {Xiong, Ruibin and Yang, Yunchang and He, Di and Zheng, Kai and Zheng, Shuxin and Xing, Chen and
               Zhang, Huishuai and Lan, Yanyan and Wang, Liwei and Liu, Tie-Yan},
  booktitle = {Proceedings of the 37th International Conference on Machine Learning},
  year      = {2020},
  url       = {https://arxiv.org/abs/2002.04745}
}""",
)
MIKOLOV_EFFICIENT = Paper(
    "word2vec (Mikolov et al., 2013)",
    r"""@misc{mikolov2013efficient,
  title  = {Efficient Estimation of Word Representations in Vector Space},
  author = {Mikolov, Tomas and Chen, Kai and Corrado, Greg and Dean, Jeffrey},
  year   = {2013},
  url    = {https://arxiv.org/abs/1301.3781}
}""",
)
MIKOLOV_DISTRIBUTED = Paper(
    "its {} (Mikolov et al., 2013)",
    r"""@inproceedings{mikolov2013distributed,
  title     = {Distributed Representations of Words and Phrases and their Compositionality},
  author    = {Mikolov, Tomas and Sutskever, Ilya and Chen, Kai and Corrado, Greg and Dean, Jeffrey},
  booktitle = {Advances in Neural Information Processing Systems 26},
  year      = {2013},
  url       = {https://arxiv.org/abs/1310.4546}
}""",
)
MORIN = Paper(
    "hierarchical softmax (Morin and Bengio, 2005)",
    r"""@inproceedings{morin2005hierarchical,
  title     = {Hierarchical Probabilistic Neural Network Language Model},
  author    = {Morin, Frederic and Bengio, Yoshua},
  booktitle = {Proceedings of the Tenth International Workshop on Artificial Intelligence and Statistics},
  pages     = {246--252},
  year      = {2005},
  url       = {https://proceedings.mlr.press/r5/morin05a.html}
}""",
)
PENNINGTON = Paper(
    "GloVe (Pennington et al., 2014)",
    r"""@inproceedings{pennington2014glove,
  title     = {{GloVe}: Global Vectors for Word Representation},
  author    = {Pennington, Jeffrey and Socher, Richard and Manning, Christopher D.},
  booktitle = {Proceedings of the 2014 Conference on Empirical Methods in Natural Language Processing},
  pages     = {1532--1543},
  year      = {2014},
  url       = {https://aclanthology.org/D14-1162}
}""",
)
GARG = Paper(
    "*What Can Transformers Learn In-Context?* (Garg et al., 2022)",
    r"""@inproceedings{garg2022what,
  title     = {What Can Transformers Learn In-Context? {A} Case Study of Simple Function Classes},
  author    = {Garg, Shivam and Tsipras, Dimitris and Liang, Percy and Valiant, Gregory},
  booktitle = {Advances in Neural Information Processing Systems 35},
  year      = {2022},
  url       = {https://arxiv.org/abs/2208.01066}
}""",
)

ARCHITECTURES = {
    "regard-transformer": (VASWANI,),
    "regard-encoder": (DEVLIN, VASWANI),
    "regard-decoder": (RADFORD, VASWANI),
    "regard-dan": (IYYER,),
    "regard-in-context-regression": (GARG, VASWANI),
    "regard-word2vec": (MIKOLOV_EFFICIENT,),
    "regard-glove": (PENNINGTON,),
}


def papers(config: PreTrainedConfig) -> tuple[list[Paper], list[Paper]]:
    """The papers of the architecture, and those of what the configuration changes in it; none for a model type that is
    not one of this package's."""
    heads = getattr(config, "num_attention_heads", None)
    architecture = list(ARCHITECTURES.get(config.model_type, ()))
    if config.model_type == "regard-word2vec":
        architecture += _of_word2vec(config)
    options = (
        (getattr(config, "norm_position", None) == "pre", XIONG),
        (getattr(config, "position_embedding_type", None) == "rotary", SU),
        (getattr(config, "norm_type", None) == "rmsnorm", ZHANG),
        (getattr(config, "gated_mlp", False), SHAZEER),
        (getattr(config, "num_key_value_heads", heads) != heads, AINSLIE),
    )
    return architecture, [paper for used, paper in options if used]


def _of_word2vec(config: PreTrainedConfig) -> list[Paper]:
    """The papers of how it learns: of the second one it may use two things, one or none."""
    sampled, subsampled = config.objective == "negative-sampling", bool(config.subsample)
    used = " and ".join(["negative sampling"] * sampled + ["subsampling"] * subsampled)
    second = [replace(MIKOLOV_DISTRIBUTED, about=MIKOLOV_DISTRIBUTED.about.format(used))] if used else []
    return [*second, *([MORIN] if config.objective == "hierarchical-softmax" else [])]


def citation(config: PreTrainedConfig) -> tuple[str, str]:
    """A sentence that names the papers, and their entries in BibTeX; both empty where none is known."""
    architecture, options = papers(config)
    if not architecture:
        return "", ""
    extra = f", with {_listed(options)}" if options else ""
    entries = "\n\n".join(paper.bibtex for paper in [*architecture, *options])
    return f"The model follows {_listed(architecture)}{extra}:", entries


def _listed(several: list[Paper]) -> str:
    *others, last = (paper.about for paper in several)
    return f"{', '.join(others)} and {last}" if others else last
