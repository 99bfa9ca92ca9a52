"""A cross-encoder from a folder: found, tokenized in pairs, run in batches, scored from 0 to 1."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from heliograph.errors import BadModelReply, MissingDependencyError, ModelUnavailable, SettingsError
from heliograph.rerank.base import build_reranker
from heliograph.rerank.onnx import OnnxReranker, find_files
from heliograph.settings import RerankSettings

tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "mars", "venus", "red", "planet", "bread"]
RED = WORDS.index("red")


def write_tokenizer(folder: Path) -> None:
    model = tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_padding()  # As exported files do; it must not get into the rows.
    tokenizer.save(str(folder / "tokenizer.json"))


def write_graph(path: Path, *, labels: int = 1, width: int = TensorProto.INT64, output: str = "logits") -> None:
    """Write a graph whose logit is how many passage tokens are `red`, minus one."""
    shape = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info(name, width, shape) for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    constants = {"red": [RED], "axis": [1], "one": [1.0]}
    initializers = [
        helper.make_tensor("red", width, [1], constants["red"]),
        helper.make_tensor("axis", TensorProto.INT64, [1], constants["axis"]),
        helper.make_tensor("one", TensorProto.FLOAT, [1], constants["one"]),
    ]
    nodes = [
        helper.make_node("Equal", ["input_ids", "red"], ["is_red"]),
        helper.make_node("Cast", ["is_red"], ["red_count"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["passage"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["red_count", "passage"], ["in_passage"]),
        helper.make_node("Mul", ["in_passage", "mask"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "axis"], ["sum"], keepdims=1),
        helper.make_node("Sub", ["sum", "one"], ["yes"]),
    ]
    if labels == 1:
        nodes.append(helper.make_node("Identity", ["yes"], [output]))
    else:
        nodes.append(helper.make_node("Neg", ["yes"], ["no"]))
        nodes.append(helper.make_node("Concat", ["no"] + ["yes"] * (labels - 1), [output], axis=1))
    value = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", labels])
    graph = helper.make_graph(nodes, "tiny", inputs, [value], initializers)
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path)
    return tmp_path


def reranker(folder: Path, **changes: Any) -> OnnxReranker:
    return OnnxReranker(RerankSettings(provider="onnx", model_dir=folder, threads=1, **changes))


def logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


async def test_passages_are_scored_in_pairs(folder: Path) -> None:
    write_graph(folder / "model.onnx")
    model = reranker(folder)
    hits = await model.rerank("red red planet", ["bread", "mars is red", "red red red", "venus"], 3)
    assert [hit.index for hit in hits] == [2, 1, 0]
    assert [hit.score for hit in hits] == pytest.approx([logistic(2), logistic(0), logistic(-1)])
    assert model.name == f"onnx:{folder.name}/model.onnx"
    await model.close()
    with pytest.raises(ModelUnavailable, match="closed"):
        await model.rerank("red", ["mars"], 1)


@pytest.mark.parametrize(
    ("graph", "score"),
    [
        ({"labels": 2}, logistic(4)),
        ({"width": TensorProto.INT32}, logistic(2)),
        ({"output": "sigmoid_scores"}, 2.0),
    ],
)
async def test_graphs_differ_in_labels_widths_and_outputs(folder: Path, graph: dict[str, Any], score: float) -> None:
    write_graph(folder / "onnx" / "model.onnx", **graph)
    hits = await reranker(folder).rerank("planet", ["red red red"], 1)
    assert hits[0].score == pytest.approx(score)


async def test_long_pair_loses_the_end_of_its_passage_and_a_long_question_its_own(folder: Path) -> None:
    write_graph(folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 12}), "utf-8")
    model = reranker(folder)
    hits = await model.rerank("planet " * 50, ["red " * 50, "bread " * 40 + "red"], 2)
    # 12 tokens are 3 special ones, 3 of the question and 6 of the passage.
    assert [hit.score for hit in hits] == pytest.approx([logistic(5), logistic(-1)])


async def test_many_passages_of_different_lengths_keep_their_scores(folder: Path) -> None:
    write_graph(folder / "model.onnx")
    documents = ["bread " * (7 * place % 60) + "red " * (place % 4) for place in range(80)]
    hits = await reranker(folder).rerank("planet", documents, 80)
    scores = {hit.index: hit.score for hit in hits}
    assert [scores[place] for place in range(80)] == pytest.approx([logistic(place % 4 - 1) for place in range(80)])


def test_file_is_found_or_named(folder: Path) -> None:
    with pytest.raises(SettingsError, match="no ONNX file"):
        find_files(folder, "")
    write_graph(folder / "onnx" / "model_quantized.onnx")
    assert find_files(folder, "").graph.name == "model_quantized.onnx"
    write_graph(folder / "onnx" / "model_int8.onnx")
    with pytest.raises(SettingsError, match="model_int8"):
        find_files(folder, "")
    assert find_files(folder, "onnx/model_int8.onnx").graph.name == "model_int8.onnx"
    write_graph(folder / "onnx" / "model.onnx")
    assert find_files(folder, "").graph.name == "model.onnx"
    with pytest.raises(SettingsError, match=r"other\.onnx"):
        find_files(folder, "other.onnx")


@pytest.mark.parametrize(
    ("config", "tokenizer_config", "longest"),
    [
        ({}, {}, 512),
        ({"max_position_embeddings": 514, "model_type": "xlm-roberta", "pad_token_id": 1}, {}, 512),
        ({"max_position_embeddings": 8194, "model_type": "xlm-roberta"}, {"model_max_length": 1024}, 1024),
        ({"max_position_embeddings": 512, "model_type": "bert"}, {"model_max_length": 1e30}, 512),
        ({"max_position_embeddings": "many"}, [], 512),
    ],
)
def test_longest_input_is_what_the_files_say(folder: Path, config: Any, tokenizer_config: Any, longest: int) -> None:
    write_graph(folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config), "utf-8")
    assert find_files(folder, "").max_tokens == longest


async def test_files_that_cannot_be_read_fail_by_name(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelUnavailable, match=r"model\.onnx"):
        await reranker(folder).rerank("red", ["mars"], 1)
    write_graph(folder / "model.onnx")
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    with pytest.raises(ModelUnavailable, match=r"tokenizer\.json"):
        await reranker(folder).rerank("red", ["mars"], 1)
    (folder / "config.json").write_text("{", "utf-8")
    with pytest.raises(SettingsError, match=r"config\.json"):
        reranker(folder)


async def test_graph_of_something_else_is_refused(folder: Path) -> None:
    write_graph(folder / "model.onnx", labels=3)
    with pytest.raises(BadModelReply, match="one or two labels"):
        await reranker(folder).rerank("red", ["mars"], 1)


async def test_settings_build_it_and_missing_package_names_the_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_graph(folder / "model.onnx")
    settings = RerankSettings(provider="onnx", model_dir=folder, max_document_tokens=16)
    model = await build_reranker(settings)
    assert model is not None
    hits = await model.rerank("planet", ["venus", "bread " * 100 + "red red"], 2)
    await model.close()
    assert [hit.index for hit in hits] == [1, 0]
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingDependencyError, match=r"heliograph\[rerank\]"):
        await build_reranker(settings)
