"""The shell of the package: how it is imported, built and called."""

import json
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import regard
from regard.textlines import join_lines, read_lines
from regard.train.recipe import list_recipes
from regard.train.trainer import TrainingDiverged

ROOT = Path(regard.__file__).resolve().parent.parent
SUBPACKAGES = ("modeling", "configs", "train", "evaluation", "model_cards", "benchmarks")


def run(*command: str, **settings) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *command], capture_output=True, **({"text": True} | settings))


def regard_command(*words: str, **settings) -> subprocess.CompletedProcess:
    return run("-m", "regard", *words, **settings)


# --- importing -------------------------------------------------------------------------------------------------------


def test_subpackages_are_never_top_level_modules():
    code = (
        "import sys, importlib\n"
        f"for name in {SUBPACKAGES}: importlib.import_module('regard.' + name)\n"
        f"print([name for name in {SUBPACKAGES} if name in sys.modules])"
    )
    result = run("-c", code, cwd=ROOT)
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_import_is_light_and_names_are_lazy():
    code = (
        "import sys, regard, regard.cli\n"
        "print([m for m in ('torch', 'transformers', 'datasets', 'evaluate', 'matplotlib') if m in sys.modules])\n"
        "print('TransformerConfig' in dir(regard), regard.TransformerConfig.__module__)"
    )
    assert run("-c", code).stdout == "[]\nTrue regard.modeling.configuration_transformer\n"


@pytest.mark.parametrize("name", regard.__all__)
def test_public_names_exist(name):
    assert getattr(regard, name) is not None
    assert name in dir(regard)


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'nonsense'"):
        regard.nonsense  # noqa: B018


def test_a_wheel_holds_every_file_and_works(tmp_path):
    # Built from a copy, without the network: the build leaves files beside the sources.
    source = tmp_path / "source"
    source.mkdir()
    for name in ("regard", *SUBPACKAGES):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = run(
        "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "-w", str(tmp_path), str(source)
    )
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("regard-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    for name in SUBPACKAGES:
        for path in (ROOT / name).rglob("*"):
            if path.suffix in (".py", ".yaml", ".html") or (name == "model_cards" and path.name == "template.md"):
                assert f"regard/{path.relative_to(ROOT).as_posix()}" in packed

    code = (
        "import regard, regard.modeling\n"
        "from regard.train.recipe import list_recipes, load_recipe\n"
        "print(regard.__file__, regard.modeling.__file__, load_recipe(list_recipes()[0]).name)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    home, modeling, recipe = run("-c", code, cwd=tmp_path, env=environment).stdout.split()
    site = tmp_path / "site" / "regard"
    assert (home, modeling) == (str(site / "__init__.py"), str(site / "modeling" / "__init__.py"))
    assert list_recipes()[0].endswith(f"/{recipe}")


# --- the command -----------------------------------------------------------------------------------------------------


def test_help_groups_the_verbs():
    text = regard_command("--help").stdout
    positions = [text.index(word) for word in ("Train", "Use", "Measure", "Share")]
    assert positions == sorted(positions)


@pytest.mark.parametrize(
    "verb",
    ["demo", "train", "sweep", "translate", "generate", "predict", "evaluate", "compare", "light", "list", "card"],
)
def test_every_verb_explains_itself_with_an_example(verb):
    result = regard_command(verb, "--help")
    assert result.returncode == 0
    assert f"Example: regard {verb}" in result.stdout


def test_version():
    assert regard_command("--version").stdout == f"{regard.__version__}\n"


def test_list_as_text_and_as_json():
    lines = regard_command("list").stdout.splitlines()
    recipes = json.loads(regard_command("list", "--json").stdout)
    assert [line.split()[0] for line in lines] == [recipe["name"] for recipe in recipes]
    assert "translation/turkish-en-tr" in [recipe["name"] for recipe in recipes]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "nothing"], "regard: There is no recipe 'nothing': see `regard list`.\n"),
        (
            ["train", "translation/turkish-en-tr", "training.sed=1"],
            "regard: There is no argument 'training.sed': did you mean 'training.seed'?\n",
        ),
        (
            ["translate", "runs/x", "Hello.", "--n-best", "5", "--num-beams", "4"],
            "regard: --n-best 5 asks for more translations than --num-beams 4 can find.\n",
        ),
        (["translate", "runs/x", "Hello.", "--file", "a.txt"], "regard: Give the text or --file, not both.\n"),
    ],
)
def test_wrong_calls_end_with_2_and_one_sentence(words, sentence):
    result = regard_command(*words)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", sentence)


def test_unknown_verbs_and_options_end_with_2():
    assert regard_command("tarin").returncode == 2
    assert regard_command("list", "--yaml").returncode == 2


def test_missing_runs_end_with_2_and_one_line(tmp_path):
    for verb in ("translate", "generate", "evaluate", "card"):
        result = regard_command(verb, str(tmp_path / "no-run"), input="")
        assert (result.returncode, result.stdout) == (2, ""), verb
        assert result.stderr.count("\n") == 1, verb
        assert "no-run" in result.stderr, verb


def test_debug_shows_the_traceback():
    result = regard_command("train", "nothing", env=os.environ | {"REGARD_DEBUG": "1"})
    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_only_the_main_process_speaks():
    result = regard_command("train", "nothing", env=os.environ | {"RANK": "1"})
    assert (result.returncode, result.stdout, result.stderr) == (2, "", "")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError("the disk\nis full"), "RuntimeError: the disk is full (REGARD_DEBUG=1 shows where)"),
        (TrainingDiverged("The training loss is nan at step 2."), "The training loss is nan at step 2."),  # our own
    ],
)
def test_failing_work_ends_with_1(monkeypatch, capsys, error, sentence):
    from regard import cli

    def fail(**_):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == f"regard: {sentence}\n"


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (lambda: regard.load_recipe("nothing"), 2),
        (lambda: open("/nothing/of/the/kind"), 2),  # noqa: SIM115
        (lambda: json.loads("{"), 1),  # a ValueError, from a library
    ],
)
def test_only_the_packages_own_sentences_are_wrong_calls(monkeypatch, capsys, call, status):
    from regard import cli

    monkeypatch.setattr(cli, "app", lambda **_: call())
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == status
    assert ("REGARD_DEBUG" in capsys.readouterr().err) == (status == 1)


def test_a_warning_is_its_sentence_whatever_a_library_sets_up(monkeypatch, capsys):
    from regard import cli

    def warn(**_):
        logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", force=True)
        logging.getLogger("regard.train").warning("Some texts were cut.")

    root = logging.getLogger()
    kept = list(root.handlers)
    monkeypatch.setattr(cli, "app", warn)
    try:
        cli.main()
    finally:
        root.handlers[:] = kept
    assert capsys.readouterr().err == "Some texts were cut.\n"
    assert logging.getLogger("regard").propagate


# --- lines in, lines out ---------------------------------------------------------------------------------------------

TEN_LINES = "One.\r\n\r\n  Two.\nThree.\u2028Still three.\n\nFour.\t\nFive.\x0cStill five.\n\n\nSix."


def test_lines_end_at_line_feeds_alone(tmp_path, monkeypatch):
    expected = [
        "One.",
        "",
        "  Two.",
        "Three.\u2028Still three.",
        "",
        "Four.\t",
        "Five.\x0cStill five.",
        "",
        "",
        "Six.",
    ]
    path = tmp_path / "in.txt"
    for end in ("", "\n"):
        path.write_bytes((TEN_LINES + end).encode())
        assert read_lines(None, path) == expected
        assert read_lines(TEN_LINES + end, None) == expected
        with path.open(encoding="utf-8") as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert read_lines(None, None) == expected


def test_empty_inputs(tmp_path):
    (tmp_path / "in.txt").write_bytes(b"")
    assert read_lines(None, tmp_path / "in.txt") == []
    assert read_lines("", None) == [""]
    (tmp_path / "in.txt").write_bytes(b"\xef\xbb\xbfOne.\n\n")
    assert read_lines(None, tmp_path / "in.txt") == ["One.", ""]


def test_bytes_that_are_not_utf8(tmp_path):
    (tmp_path / "in.txt").write_bytes(b"abc\xff")
    with pytest.raises(ValueError, match="in.txt is not UTF-8: byte 3 cannot be read."):
        read_lines(None, tmp_path / "in.txt")


def test_as_many_lines_come_out():
    assert join_lines(["a\nb", "", "c\r\n d"]) == "a b\n\nc  d\n"
