"""Task files: what is read, what is rendered, and a sentence for everything that is broken."""

import json
import logging
import math
from types import SimpleNamespace

import pytest

from regard.evaluation.few_shot import items as few_shot_items
from regard.evaluation.few_shot.items import Item, builtin_items
from regard.evaluation.few_shot.rows import check_limit, limited, load_items, source_of
from regard.evaluation.few_shot.task import list_tasks, load_task
from regard.evaluation.few_shot.templates import content_free_query, example_of, item_of, queries_of

TASK = """
data: {file: asked.jsonl, shots_file: shown.jsonl}
query: "Q: {{ question }}\\nA:"
choices: {labels: [no, yes]}
answer: "{{ label }}"
"""
ROWS = [{"question": f"Is {i} even?", "label": int(i % 2 == 0)} for i in range(10)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, rows in {"asked": ROWS[:4], "shown": ROWS[4:]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "task.yaml").write_text(TASK)
    return tmp_path


def _task(folder, text=TASK, *overrides):
    (folder / "task.yaml").write_text(text)
    return load_task(folder / "task.yaml", overrides)


def test_a_row_becomes_an_item_and_a_shot(folder):
    task = load_task("task.yaml")
    items, pool = load_items(task)
    assert (task.name, task.metric, task.labels, task.takes_shots) == ("task", "accuracy", ["no", "yes"], True)
    assert items[0] == Item("0", ROWS[0], ("no", "yes"), 1)
    assert [one.id for one in pool] == [f"shown/{i}" for i in range(6)]  # row 0 there is no row 0 here
    assert queries_of(task, items[0]) == ("Q: Is 0 even?\nA:",)
    assert example_of(task, pool[1]) == "Q: Is 5 even?\nA: no"
    assert content_free_query(task, items[0]) == "Q: N/A\nA:"
    assert source_of(task.data) == {"file": "asked.jsonl", "shots_file": "shown.jsonl"}


def test_data_lie_where_the_command_runs_or_beside_the_task(folder, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert len(load_items(load_task(folder / "task.yaml"))[0]) == 4


def test_a_limit_draws_the_same_items_each_time(folder):
    every, pool = load_items(_task(folder, TASK, "data.file=shown.jsonl"))
    items = limited(every, 3)
    again, _ = load_items(load_task("task.yaml", ["data.file=shown.jsonl"]))
    assert [one.id for one in items] == [one.id for one in limited(again, 3)]
    assert len({one.id for one in items}) == 3
    assert [one for one in every if one in items] == items  # in their order
    assert len(pool) == 6  # shots may be any other
    assert limited(every, None) == limited(every, 6) == limited(every, 7) == every
    with pytest.raises(ValueError, match="limit=0 must be at least 1"):
        check_limit(0)


def test_a_file_takes_the_place_of_the_hubs_data_set(folder, caplog):
    text = TASK.replace(
        "{file: asked.jsonl, shots_file: shown.jsonl}", "{path: user/set, split: test, shots_split: train}"
    )
    task = _task(folder, text, "data.file=asked.jsonl", "data.shots_file=shown.jsonl")
    assert (task.data.path, task.data.split, task.data.shots_split) == (None, None, None)
    assert not caplog.messages
    with caplog.at_level(logging.WARNING):
        items, pool = load_items(_task(folder, text, "data.file=asked.jsonl"))
    assert items == pool
    assert "so the shots come from that file too, never the item that is asked" in caplog.text


def test_a_data_set_that_cannot_be_reached_is_one_sentence(folder, monkeypatch):
    """In the place of the network: what `datasets` raises without one."""
    import datasets

    def unreachable(*_args, **_settings):
        raise ConnectionError("Couldn't reach 'user/set' on the Hub (LocalEntryNotFoundError)\nmore lines")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    task = _task(folder, TASK.replace("{file: asked.jsonl, shots_file: shown.jsonl}", "{path: user/set, split: test}"))
    with pytest.raises(ValueError, match=r"^The split 'test' of the data set 'user/set' cannot be loaded \(Couldn't"):
        load_items(task)


def test_choices_come_from_a_field_templates_or_contexts(folder):
    rows = {
        "field": ('choices: {field: options.text}\nanswer: "{{ options.label.index(key) }}"', {
            "options": {"text": ["2", "4", "6"], "label": ["A", "B", "C"]}, "key": "C", "question": "3 + 3?",
        }, (("2", "4", "6"), 2, ())),
        "templates": ('choices: {templates: ["{{ one }}", "{{ two }}."]}\nanswer: "{{ two }}."', {
            "one": "a", "two": "b", "question": "Which?",
        }, (("a", "b."), 1, ())),
    }  # fmt: skip
    for more, row, (choices, answer, contexts) in rows.values():
        task = _task(folder, f'data: {{file: asked.jsonl}}\nquery: "{{{{ question }}}}"\n{more}')
        item = item_of(task, row, 0)
        assert (item.choices, item.answer, item.contexts) == (choices, answer, contexts)
        assert example_of(task, item) == f"{row['question']} {choices[answer]}"


def test_of_partial_scoring_the_contexts_differ_and_the_rest_is_the_same(folder):
    task = _task(
        folder,
        'data: {file: asked.jsonl}\nanswer: "{{ key }}"\nchoices:\n  contexts: ["{{ before }}{{ one }}", '
        '"{{ before }}{{ two }}"]\n  continuation: "{{ after }}"',
    )
    item = item_of(task, {"before": "The trophy is too big for the case, since the ", "one": "trophy", "two": "case",
                          "after": "is small.", "key": 1}, 0)  # fmt: skip
    assert item.choices == ("is small.", "is small.")
    assert queries_of(task, item)[1] == "The trophy is too big for the case, since the case"
    assert example_of(task, item) == "The trophy is too big for the case, since the case is small."
    assert task.is_partial
    assert task.takes_shots


def test_a_free_answer_may_have_several_right_texts(folder):
    text = 'data: {file: asked.jsonl}\nquery: "{{ q }}"\ngeneration: {stop: ["\\n", "Q:"]}\n'
    assert _task(folder, f'{text}answer: "{{{{ a }}}}"').metric == "exact_match"
    item = item_of(_task(folder, f'{text}answer: ["{{{{ a }}}}", "{{{{ b }}}}"]'), {"q": "?", "a": "1", "b": "one"}, 0)
    assert (item.references, item.choices, item.answer) == (("1", "one"), (), None)
    assert item_of(_task(folder, f"{text}answer: {{field: all}}"), {"q": "?", "all": ["x", "y"]}, 0).references == (
        "x",
        "y",
    )


def test_labels_that_are_numbers_are_taken_as_they_are_written(folder):
    """Of one to five stars "1" is the first label; its place, 0, is none of them."""
    task = _task(folder, TASK.replace("[no, yes]", '["1", "2", "3"]'))
    assert [item_of(task, {"question": "?", "label": stars}, 0).answer for stars in (1, 2, 3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="'0' is none of the choices 1, 2, 3, whose places are not taken where they"):
        item_of(task, {"question": "?", "label": 0}, 0)
    places = _task(folder, TASK.replace("[no, yes]", '["0", "1"]'))
    assert item_of(places, {"question": "?", "label": 1}, 0).answer == 1


def test_of_several_fields_the_first_that_is_there_is_made_content_free(folder):
    task = _task(
        folder, TASK.replace("{{ question }}", "{{ premise or question }}") + "content: [premise or question]\n"
    )
    assert content_free_query(task, Item("0", {"premise": "", "question": "Who?"})) == "Q: N/A\nA:"
    row = item_of(task, {"premise": "A cup.", "question": "cause", "label": 0}, 0)
    assert content_free_query(task, row) == "Q: N/A\nA:"
    with pytest.raises(ValueError, match="content: the item '0' has no field 'premise or question', but text"):
        content_free_query(task, Item("0", {"text": "x"}))


def test_an_empty_query_compares_whole_texts(folder):
    task = _task(
        folder,
        'data: {file: asked.jsonl}\nquery: ""\nchoices: {templates: ["{{ good }}", "{{ bad }}"]}\nanswer: "0"\n'
        'group: "{{ phenomenon }}"',
    )
    item = item_of(task, {"good": "The cats sleep.", "bad": "The cats sleeps.", "phenomenon": "agreement"}, 0)
    assert (item.choices, item.answer, item.group) == (("The cats sleep.", "The cats sleeps."), 0, "agreement")
    assert not task.takes_shots


def test_the_items_of_a_generator_keep_their_parts(folder):
    task = _task(folder, "data: {builtin: minimal-pairs}\nquery: ''")
    shot = Item("s", {"x": "ab"}, ("ba", "ab"), 0)
    given = Item("i", {"x": "cd"}, ("dc", "cd"), 0, (), (), "swap", (shot,), "10")
    assert item_of(task, given.fields, 0, given) == given
    letters = _task(folder, "data: {builtin: minimal-pairs}\nquery: '{{ x }}>'\njoin: ''\nseparator: \"\\n\"")
    assert example_of(letters, shot) == "ab>ba"


BROKEN = {
    "an unknown key": (TASK + "quary: x", r"there is no key 'quary': did you mean 'query'\?"),
    "an unknown key of data": (TASK, r"there is no key 'data.splitt': did you mean 'data.split'\?", "data.splitt=dev"),
    "no data": ("query: x", "data is missing"),
    "data of two kinds": (TASK, "data: one of 'path', 'file' or 'builtin' says where the items come from, but "
                          "there are path and file", "data.path=user/set", "data.file=asked.jsonl"),
    "keys of another kind": (TASK, "data.number goes with data.builtin, not with data.file", "data.number=3"),
    "no split": (TASK, "data.split is missing", "data.path=user/set"),
    "no such generator": (TASK, "there is no generator 'minimal-pair': did you mean 'minimal-pairs'",
                          "data.builtin=minimal-pair"),
    "true as a label": (TASK, r"choices.labels: \[True, False\] is not a list of texts \(true and false are texts in",
                        "choices.labels=[true, false]"),
    "one label": (TASK, r"choices.labels: \['x'\] must be at least 2 texts", "choices.labels=[x]"),
    "a label twice": (TASK, "must be texts that differ", "choices.labels=[x, x]"),
    "two kinds of choices": (TASK, "choices: one of 'labels', 'field', 'templates' or 'contexts' says what they are, "
                             "but there are labels and field", "choices.field=options"),
    "a continuation alone": (TASK, "choices.continuation is the same text after each of choices.contexts",
                             "choices.continuation=x"),
    "choices and writing": (TASK, "choices and generation exclude each other", "generation.max_new_tokens=3"),
    "neither": (TASK.replace("choices: {labels: [no, yes]}", ""), "choices or generation is missing"),
    "no answer": (TASK.replace('answer: "{{ label }}"', ""), "answer is missing"),
    "no query": (TASK.replace("query", "description"), "query is missing"),
    "a broken template": (TASK, r"query: '\{\{ question' is not a Jinja template", 'query="{{ question"'),
    "an unknown metric": (TASK, "metric: 'acuracy' is not known: did you mean 'accuracy'", "metric=acuracy"),
    "a metric of texts": (TASK, "metric: 'bleu' does not fit choices, which take 'accuracy'", "metric=bleu"),
    "a metric of labels": (TASK, "metric: 'f1' counts labels, and takes choices.labels",
                           "metric=f1", "choices={field: question}"),
    "an empty stop": (TASK.replace("choices: {labels: [no, yes]}", 'generation: {stop: [""]}'),
                      "generation.stop holds an empty text"),
    "a name with a slash": (TASK, "name: 'a/b' must be letters, digits", "name=a/b"),
    "not YAML": ("query: [", "is not valid YAML"),
    "a list": ("- query", "holds a list, and a task has keys such as 'data:' and 'query:'"),
    "an empty file": ("", "holds nothing, and a task has keys"),
    "a field that is no name": (TASK.replace("choices: {labels: [no, yes]}", "generation: {}"),
                                "answer.field: 3 must be the name of a field with a list of", "answer={field: 3}"),
    "choices beside a generator's": ("data: {builtin: minimal-pairs}\nquery: ''",
                                     "choices: the generator 'minimal-pairs' brings its own, so other ones need an "
                                     "answer", "choices.labels=[a, b]"),
    "a name that no file can have": (TASK, r"name: 'a{20}\.\.\.' has 300 bytes and must have at most 200",
                                     "name=" + "a" * 300),
    "an override without quotes": (TASK, "is not valid YAML: .*; a text with '{', '.' or ': ' in it stands in quotes",
                                   "query=Q: {{ question }}"),
    "an override without a value": (TASK, "'data.file' is not of the form key=value, such as data.file=my.jsonl",
                                    "data.file"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_task_is_refused_in_one_sentence(folder, name):
    text, message, *overrides = BROKEN[name]
    with pytest.raises(ValueError, match=message) as caught:
        _task(folder, text, *overrides)
    assert "\n" not in str(caught.value)


BROKEN_DATA = {
    "a field that is not there": ('query="{{ qestion }}"', r"query of the item '0' \(asked.jsonl, line 1\): 'qestion' "
                                  "is undefined; the fields are question, label"),
    "an answer that is no choice": ('answer="maybe"', r"answer of the item '0' \(asked.jsonl, line 1\): 'maybe' is "
                                    "none of the choices no, "),
    "an answer beyond the choices": ('answer="-1"', r"answer of the item '0' .*: -1 is no place among its 2 choices"),
    "content that is not there": ("content=[zzz]", r"content: the item '0' \(asked.jsonl, line 1\) has no field "
                                  "'zzz', but question, label"),
    "more text than the memory holds": ('query="{{ question * 10**17 }}"', "query of the item '0' .* is too much for "
                                        "the memory; the fields are question, label"),
    "a file that is not there": ("data.file=nowhere.jsonl", "reads the file 'nowhere.jsonl', and there is none: "
                                 "name yours with --set data.file=PATH, or"),
    "shots that are not there": ("data.shots_file=none.jsonl", "name yours with --set data.shots_file=PATH, or"),
    "a text file": ("data.file=asked.txt", "'asked.txt' is no file of a known kind: its name ends in '"),
    "a file of another kind": ("data.file=asked.pkl", "'asked.pkl' is no file of a known kind: its name ends in '"),
    "the same name twice": ('id="same"', "has two items with the id 'same': each has one of its own"),
    "a choice without text": ('choices={templates: ["", "x"]}', "a choice is empty, so there is nothing to score"),
    "a method that changes things": ('query="{{ question.__class__ }}"', "query of the item '0'"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "{phenomenon: agreement}",
            "data.options.phenomenon: the generator 'minimal-pairs' has no such option: did you "
            r"mean 'data.options.phenomena'\?",
        ),
        ("{phenomena: [agrement]}", "phenomena: there is no 'agrement': did you mean 'agreement'"),
        ("{phenomena: 3}", "phenomena=3 must be a list of names: agreement, "),
        ("{phenomena: [3]}", r"phenomena=\[3\] must be a list of names: agreement, "),
    ],
)
def test_options_that_a_generator_does_not_take_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        load_items(load_task("minimal-pairs", [f"data.options={options}"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "data.options.task is missing: the generator 'in-context' needs it"),
        ({"task": "swapping", "pol": 3}, r"data.options.pol: .* no such option: did you mean 'data.options.pool'\?"),
        ({"task": "swapping", "name": "x"}, "data.options.name: .* no such option: it is 'task', 'split' or 'pool'"),
        ({"task": 3}, "task=3 must be the name of an in-context task: swapping, "),
        ({"task": "swapping", "pool": "3"}, "pool='3' is not a whole number"),
        (
            {"task": "swapping", "seed": 3},
            "data.options.seed: it is no option of a generator, but a key of data: data.se",
        ),
    ],
)
def test_options_of_in_context_tasks_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        builtin_items("in-context", 2, 0, **options)


def test_a_fault_of_a_generator_is_not_laid_to_its_options(monkeypatch):
    def broken(number, seed):
        return len(number)

    monkeypatch.setattr(few_shot_items, "BUILTIN", {"broken": ("a.module", "broken")})
    monkeypatch.setattr(few_shot_items, "import_module", lambda name: SimpleNamespace(broken=broken))
    with pytest.raises(TypeError, match="has no len"):
        builtin_items("broken", 2)


def test_a_single_phenomenon_needs_no_list():
    items, _ = load_items(load_task("minimal-pairs", ["data.options.phenomena=reflexives", "data.number=4"]))
    assert {item.group for item in items} == {"reflexives"}


@pytest.mark.parametrize("name", BROKEN_DATA)
def test_broken_data_are_refused_in_one_sentence(folder, name):
    override, message = BROKEN_DATA[name]
    task = _task(folder, TASK, override)
    with pytest.raises(ValueError, match=message) as caught:
        load_items(task)
    assert "\n" not in str(caught.value)


GOOD = {"question": "Is it?", "label": 1}
WITHOUT_VALUE = {
    "null": ("{{ question }}", GOOD | {"question": None}, r"'question' has no value \(null\)"),
    "NaN": ("{{ question }}", GOOD | {"question": math.nan}, r"'question' has no value \(NaN\)"),
    "null in a filter": ("{{ question | trim }}", GOOD | {"question": None}, r"'question' has no value \(null\)"),
    "null joined to a text": ("{{ label ~ question }}", GOOD | {"question": None}, "'question' has no value"),
    "null inside": ("{{ question.en }}", GOOD | {"question": {"en": None}}, r"'question\.en' has no value \(null\)"),
    "null in a list": ("{{ question | join }}", GOOD | {"question": ["a", None]}, r"'question\[1\]' has no value"),
}


@pytest.mark.parametrize("name", WITHOUT_VALUE)
def test_a_field_without_a_value_is_no_text(folder, name):
    """The third row of either file lacks it; neither "None" nor "nan" gets into a prompt."""
    query, bad, message = WITHOUT_VALUE[name]
    task = _task(folder, TASK, f"query='{query}'")
    good = GOOD | ({"question": {"en": "Is it?"}} if "." in query else {})
    for faulty, item in {"asked": "2", "shown": "shown/2"}.items():
        for file in ("asked", "shown"):
            rows = [good, good, bad if file == faulty else good]
            (folder / f"{file}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        with pytest.raises(ValueError, match=rf"the item '{item}' \({faulty}.jsonl, line 3\): {message}"):
            load_items(task)


def test_an_expression_without_a_value_is_no_text(folder):
    task = _task(folder, TASK, "query='{{ {}.get(question) }}'")
    with pytest.raises(ValueError, match="query of the item '0' .*: an expression gives None in the place of a text"):
        load_items(task)


def test_a_template_may_say_what_stands_for_a_field_without_a_value(folder):
    templates = {
        "{{ hint | default('no hint') }}": "no hint",
        "{{ hint or question }}": "Is it?",
        "{{ question if hint is none else hint }}": "Is it?",
        "{{ question if hint == none else hint }}": "Is it?",
        "{{ 'none' if hint is not defined else hint }}": "none",
    }
    for query, text in templates.items():
        task = _task(folder, TASK, f'query="{query}"')
        for value in (None, math.nan):
            assert queries_of(task, item_of(task, GOOD | {"hint": value}, 0)) == (text,)


def test_labels_of_a_column_that_lacks_some_are_whole_numbers(folder):
    """A column of whole numbers with a gap is one of floats: 0.0 is the label 0, and the gap is what is refused."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"question": ["a", "b", "c"], "label": pyarrow.array([0.0, 1.0, None])})
    parquet.write_table(table, folder / "gap.parquet")
    task = _task(folder, TASK, "data.file=gap.parquet")
    with pytest.raises(ValueError, match=r"^answer of the item '2' \(gap.parquet, row 3\): 'label' has no value"):
        load_items(task)
    parquet.write_table(table.slice(0, 2), folder / "gap.parquet")
    assert [item.answer for item in load_items(task)[0]] == [0, 1]
    stars = _task(folder, TASK.replace("[no, yes]", '["1", "2"]'))
    assert item_of(stars, {"question": "?", "label": 2.0}, 0).answer == 1
    decimals = _task(folder, TASK.replace("[no, yes]", '["1.0", "0.0"]'))
    assert item_of(decimals, {"question": "?", "label": 0.0}, 0).answer == 1


def test_a_file_without_rows_is_named(folder):
    (folder / "asked.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="The task 'task' has no items: 'asked.jsonl' holds none"):
        load_items(load_task("task.yaml"))


def test_items_without_a_group_are_counted_under_a_name(folder):
    task = _task(folder, TASK, 'group="{{ kind }}"')
    groups = [item_of(task, GOOD | {"kind": kind}, 0).group for kind in ("", "  ", "old")]
    assert groups == ["(none)", "(none)", "old"]
    with pytest.raises(ValueError, match="group of the item '0': 'kind' has no value"):
        item_of(task, GOOD | {"kind": None}, 0)


def test_a_task_that_is_not_there_names_the_nearest(folder):
    with pytest.raises(ValueError, match="There is no task file 'none.yaml'"):
        load_task("none.yaml")
    with pytest.raises(ValueError, match="There is no task 'no-such-task-at-all': it is a .yaml file"):
        load_task("no-such-task-at-all")


@pytest.mark.parametrize("name", list_tasks())
def test_shipped_tasks_are_whole(name):
    task = load_task(name)
    assert task.name == name
