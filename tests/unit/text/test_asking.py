"""How questions ask in other languages than English and Chinese: their language, parts and answers, and sentences."""

from __future__ import annotations

import pytest

from heliograph.query.answers.candidates import AnswerType, expected_forms, expected_type, find_focus
from heliograph.query.understanding import QuestionKind, understand_by_rules
from heliograph.text.analysis import question_language
from heliograph.text.asking import ASKING, Asking, asks
from heliograph.text.sentences import sentence_spans


@pytest.mark.parametrize("language", ASKING)
def test_every_pattern_is_a_regular_expression(language: str) -> None:
    for field in Asking.__slots__:
        asks(language, field)
    assert asks(language, "words") is not None
    assert asks("xx", "words") is None


@pytest.mark.parametrize(
    ("question", "language", "kind"),
    [
        ("Combien de jours dure la garantie ?", "fr", AnswerType.NUMBER),
        ("¿Cuándo se fundó?", "es", AnswerType.DATE),
        ("Da dove provengono i nomi?", "it", AnswerType.LOCATION),
        ("Que pacote instala as atualizações?", "pt", AnswerType.CODE),
        ("Wanneer begon de oorlog?", "nl", AnswerType.DATE),
        ("Kto napisał program?", "pl", AnswerType.PERSON),
        ("Kolik souborů je povoleno?", "cs", AnswerType.NUMBER),
        ("Vilket kommando visar gränsen?", "sv", AnswerType.CODE),
        ("Hangi komut sahibini değiştirir?", "tr", AnswerType.CODE),
        ("Где живёт автор?", "ru", AnswerType.LOCATION),
        ("創業はいつですか?", "ja", AnswerType.DATE),
        ("몇 명이 일합니까?", "ko", AnswerType.NUMBER),
    ],
)
def test_a_short_question_tells_its_language_and_what_it_wants(question: str, language: str, kind: AnswerType) -> None:
    assert question_language(question) == language
    assert expected_type(find_focus(question), language) is kind


@pytest.mark.parametrize(
    "question",
    [
        "Is comment allowed in JSON?",
        "How come the server stops?",
        "What does Gärtner mean by this?",
        "quota limit",
        "Who wrote Que será?",
        "Who wrote Don Quijote de la Mancha?",
        "Kim Kardashian net worth",
        "Dove Cameron age?",
        "Ben Hur director",
        "Che Guevara biography",
        "var keyword in JavaScript",
        "Co owner of Tesla",
        "Łódź population",
        "Wie Gehts translation",
    ],
)
def test_an_english_question_stays_one(question: str) -> None:
    assert question_language(question) == "en"


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Que es JSON?", "es"),
        ("Que signifie API ?", "fr"),
        ("Ou se trouve le fichier ?", "fr"),
        ("Jak zainstalować nginx?", "pl"),
        ("Is de server bereikbaar?", "nl"),
        ("Was ist Docker?", "de"),
    ],
)
def test_a_question_typed_without_accents_or_with_few_words_tells_its_language(question: str, language: str) -> None:
    assert question_language(question) == language


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Quelle commande change le propriétaire d'un fichier et où déclare-t-on les quotas ?",
            ("Quelle commande change le propriétaire d'un fichier", "où déclare-t-on les quotas ?"),
        ),
        (
            "¿Qué paquete ofrece el servidor y en qué archivo se guarda el nombre?",
            ("¿Qué paquete ofrece el servidor", "en qué archivo se guarda el nombre?"),
        ),
        (
            "Hangi tuşla kabul edilir ve otomatik düzeltme nasıl geri alınır?",
            ("Hangi tuşla kabul edilir", "otomatik düzeltme nasıl geri alınır?"),
        ),
        (
            "Какая команда меняет владельца файла и как узнать свои группы?",
            ("Какая команда меняет владельца файла", "как узнать свои группы?"),
        ),
        (
            "용지 크기는 어느 파일에 저장되고 내 그룹은 어떤 명령으로 확인합니까?",
            ("용지 크기는 어느 파일에 저장되고", "내 그룹은 어떤 명령으로 확인합니까?"),
        ),
        (
            "所有者を変えるコマンドは何ですか?また、容量はどこに書きますか?",
            ("所有者を変えるコマンドは何ですか", "容量はどこに書きますか?"),
        ),
        ("何が起きますか。また、どこに書かれますか。", ("何が起きますか", "どこに書かれますか。")),
        ("どのファイルが読まれるか、または無視されるかを決めるのは何ですか?", ()),
        ("Quel fichier contient le nom et l'adresse de la machine ?", ()),
        ("Que se passe-t-il quand le serveur démarre et quand il s'arrête ?", ()),
        ("Comment s'appelle le dossier où sont les fichiers et où se trouvent les journaux ?", ()),
        ("Quem disse que o rio seca e que chove pouco?", ()),
        ("Кто сказал, что он болен и что он скоро умрёт?", ()),
        ("¿Dónde están los archivos y directorios del servidor?", ()),
    ],
)
def test_two_questions_in_one_are_told_apart(question: str, parts: tuple[str, ...]) -> None:
    assert understand_by_rules(question).parts == parts


@pytest.mark.parametrize(
    "question",
    [
        "Résume les documents.",
        "Riassumi i documenti della rete",
        "Обобщи документы",
        "文書を要約してください",
        "문서를 요약해 줘",
    ],
)
def test_an_account_is_asked_for_in_other_languages(question: str) -> None:
    assert understand_by_rules(question).kind is QuestionKind.GLOBAL


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Dans quel fichier est enregistré le format ?", "Il est dans `/etc/papersize`."),
        ("¿Cuánto tiempo dura la sesión?", "Termina a los 30 minutos."),
        ("Którym klawiszem się potwierdza?", "Naciśnij Enter."),
        ("既定の値は何ですか?", "値はデフォルトで 5 です。"),
    ],
)
def test_the_form_of_an_answer_is_known_in_other_languages(question: str, answer: str) -> None:
    forms = expected_forms(question, question_language(question))
    assert any(form.search(answer) for form in forms)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Il dit : « Venez ici ! » et part.", "Voir l'art. 5 du chap. 3."],
        ["La Dra. López y la Sra. Ruiz, pág. 12, llegaron.", "¿Quién es?"],
        ["Np. Warszawa, ul. Długa 5.", "Zob. rozdz. 3."],
        ["Он жил на ул. Ленина.", "Проф. Иванов приехал."],
        ["「行きますか？」と言った。", "彼は笑った．", "次へ。"],
        ["هل هذا صحيح؟", "نعم!"],
    ],
)
def test_sentences_of_other_languages_end_where_they_end(sentences: list[str]) -> None:
    joint = "" if sentences[0][0] == "「" else " "
    text = joint.join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences
