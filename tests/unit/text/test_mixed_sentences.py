"""Chinese sentences that are mostly Latin names."""

from __future__ import annotations

import re

import pytest

from heliograph.text.analysis import is_chinese
from heliograph.text.chinese import has_latin_grammar
from heliograph.text.phrases import find_names, read_texts

_HAN = re.compile(r"[\u4e00-\u9fff]")


def han_names(text: str) -> list[str]:
    return [name.text for name in find_names(text) if _HAN.search(name.text)]


@pytest.mark.parametrize(
    "text",
    [
        "MQTT 需要 WiFi。",
        "OpenAI 发布 GPT-4。",
        "Prometheus 采集 Kubernetes 指标。",
        "Kafka 依赖 ZooKeeper 吗?",
        "redis 需要 linux",
        "npm 安装 webpack",
        "iPhone 支持 MagSafe",
        "Internet of Things 需要 Wi-Fi",
        "Elasticsearch 和 OpenSearch 兼容 Kibana",
        "使用 Docker Compose 部署 PostgreSQL",
        "Visual Studio Code 的 Remote Development 插件",
        "Apache Kafka 被 LinkedIn 开源",
    ],
)
def test_chinese_words_between_latin_names_are_no_names(text: str) -> None:
    assert not is_chinese(text)
    assert han_names(text) == []


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("The Great Wall (长城) is long.", ["长城"]),
        ("Li Bai 李白 wrote it.", ["李白"]),
        ("It is known that the word 需要 means trouble.", ["需要"]),
        ("Machine Learning 机器学习", ["机器学习"]),
        ("Learning Curve (学习)", ["学习"]),
        ("Crouching Tiger, Hidden Dragon 卧虎藏龙", ["卧虎藏龙"]),
        ("Beijing Foreign Studies University 北京外国语大学", ["北京外国语大学"]),
    ],
)
def test_what_is_quoted_in_characters_stays_a_name(text: str, quoted: list[str]) -> None:
    assert han_names(text) == quoted


def test_latin_names_and_words_are_read_as_in_any_sentence() -> None:
    assert [name.text for name in find_names("Prometheus 采集 Kubernetes 指标。")] == ["Prometheus", "Kubernetes"]
    (reading,) = read_texts(["machine learning 使用 GPU 集群"])[0]
    assert [phrase.text for phrase in reading.phrases] == ["machine learning", "使用", "集群"]


def test_function_word_inside_a_name_tells_no_language() -> None:
    assert not has_latin_grammar("Internet of Things 需要 Wi-Fi")
    assert not has_latin_grammar("用 k8s-in-docker 启动 IT")
    assert has_latin_grammar("Things of 长城 age")
