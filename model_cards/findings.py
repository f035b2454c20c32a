"""What a check says: sentences, each about one file."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Something that must not be published as it is.

    Attributes:
        check: which check found it, in one word: loading, outputs, round-trip, tokenizer, auto-map, code, weights,
            metadata, licence, secret, path, pickle, state or size.
        file: the file, or an empty text where it is about all of them.
        problem: one sentence.
    """

    check: str
    file: str
    problem: str

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}" if self.file else self.problem


@dataclass
class CheckReport:
    """The answer of a check.

    Attributes:
        checked: the folder or Hub id.
        findings: what is wrong.
        notes: what was not looked at, and what publishing changes.
        files: bytes by path.
        classes: the auto classes that loaded the model where regard cannot be imported.
    """

    checked: str
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}
