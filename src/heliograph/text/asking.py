"""Question words and answer types in languages other than English and Chinese, which have rules of their own.

One record per language: its question words, what separates two questions, and the words that reveal the kind and the
form of the expected answer. All values are parts of regular expressions, matched without regard to case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Asking:
    """The question patterns of one language; a field is empty where it has no pattern.

    Attributes:
        words: Question words.
        joins: What separates two questions.
        goes_on: Question words before which `joins` begins another question, without those that are as often relative
            pronouns. Empty where a question word may stand anywhere in its question.
        person: What asks for a person; likewise `date`, `number`, `location`, and `code`, for text addressed to a
            machine.
        duration: What asks for a length of time; likewise `size`, `key`, `option`, `file`, `package`, and `default`,
            for the value that holds unless another is set.
        account: What asks for a general account.
    """

    words: str
    joins: str
    goes_on: str = ""
    person: str = ""
    date: str = ""
    number: str = ""
    location: str = ""
    code: str = ""
    duration: str = ""
    size: str = ""
    key: str = ""
    option: str = ""
    file: str = ""
    package: str = ""
    default: str = ""
    account: str = ""


GERMAN_INTERROGATIVE = (
    r"(?:wer|wem|wen|wessen|wann|wie|wieviele?|warum|weshalb|wieso|inwiefern|welche[rsnm]?"
    r"|wo(?:r?(?:an|auf|aus|bei|durch|für|gegen|her|hin|in|mit|nach|über|um|unter|von|vor|zu))?)"
)

# An inflectional ending of a Russian, Polish or Czech word, where it does not matter.
_SLAVIC = r"\w{0,4}"
_WHICH_RU = rf"(?:как(?:ой|ая|ое|ие|ого|ому|им|ими|их|ую|ом)|котор{_SLAVIC})"
_WHICH_PL = r"(?:jak(?:i|a|ie|ich|im|imi|iej|ą|iego)|któr(?:y|a|e|ych|ym|ymi|ej|ą|ego|emu))"
_WHICH_CS = r"(?:jak(?:ý|á|é|ého|ému|ým|ou|ých|ými)|kter(?:ý|á|é|ého|ému|ým|ou|ých|ými))"
_WHICH_FR = r"(?:quel(?:le)?s?|lequel|laquelle)"
_WHICH_ES = r"(?:qué|cuál(?:es)?)"
_WHICH_IT = r"(?:qual[ei]|che|quale)"
_WHICH_PT = r"(?:qual|quais|que)"

ASKING: Mapping[str, Asking] = {
    "de": Asking(
        words=GERMAN_INTERROGATIVE,
        joins="und|oder|aber",
        goes_on=rf"was|{GERMAN_INTERROGATIVE}",
        person="wer|wem|wen|wessen",
        date="wann|(?:welche[rsnm]?|seit welchem) (?:jahr|tag|monat|datum)",
        number=(
            r"wie ?(?:viele?|hoch|groß|lange?|oft|alt|tief|schwer|breit|weit)"
            r"|welche[rsnm]? \w*(?:betrag|wert|zahl|nummer|grenze|höhe|länge|dauer|port)"
        ),
        location="wo|wohin|woher|(?:aus )?welche[rsnm]? (?:stadt|land|ort|staat|bundesstaat|insel)",
        code=(
            r"welche[rsnm]? \w*(?:befehl|kommando|option|parameter|funktion|datei|verzeichnis|ordner|pfad|paket"
            "|programm|werkzeug|skript|modul|klasse|methode|dienst|taste|schalter|direktive|anweisung|einstellung"
            "|variable|attribut|element|feld|format|endung|signal|protokoll|schlüssel)"
        ),
    ),
    "fr": Asking(
        words=rf"{_WHICH_FR}|comment|combien|pourquoi|quand|où|qui|qu['’]est-ce|que|quoi",
        joins="et|ou|mais",
        goes_on=rf"{_WHICH_FR}|comment|combien|pourquoi|quand|où|qu['’]est-ce",
        person="qui|quel(?:le)? (?:personne|auteur|développeur|responsable)",
        date=r"quand|quel(?:le)? (?:année|jour|mois|date|époque)|depuis combien",
        number=(
            "combien|quel(?:le)? (?:est |sont )?(?:le |la |l['’])?(?:taille|nombre|valeur|âge|port|prix|durée|limite"
            "|hauteur|longueur|pourcentage|numéro|délai)"
        ),
        location=r"où|quel(?:le)? (?:ville|pays|région|endroit|île|état)",
        code=(
            rf"{_WHICH_FR} (?:commande|option|paramètre|fonction|fichier|répertoire|dossier|chemin|paquet|programme"
            "|outil|script|module|classe|méthode|service|touche|raccourci|variable|directive|format|signal|protocole"
            "|clé|attribut|champ|logiciel|utilitaire|démon)s?"
        ),
        duration=(
            "combien de temps|combien (?:de |d['’])(?:secondes|minutes|heures|jours|semaines|mois|ans)"
            "|quel(?:le)? (?:durée|délai)"
        ),
        size=r"combien d['’]octets|quelle (?:est la )?taille",
        key=r"quel(?:le)?s? (?:touche|raccourci|combinaison)",
        option=r"quel(?:le)?s? (?:option|paramètre)",
        file=(
            r"quel(?:le)?s? (?:fichier|répertoire|dossier|chemin)|où\b.*(?:stock|enregistr|conserv|trouv|déclar|défini"
            r"|configur|sauvegard|écrit|plac|indiqu|list)"
        ),
        default=r"par défaut",
        account=r"\brésum|\bsynthèse\b|vue d['’]ensemble|grandes lignes",
    ),
    "es": Asking(
        words=rf"{_WHICH_ES}|cómo|cuánt[oa]s?|por qué|cuándo|(?:a)?dónde|quién(?:es)?",
        joins="y|e|o|u|pero",
        goes_on=rf"{_WHICH_ES}|cómo|cuánt[oa]s?|por qué|cuándo|(?:a)?dónde|quién(?:es)?",
        person=r"quién(?:es)?|qué (?:persona|autor|desarrollador)",
        date=r"cuándo|qué (?:año|día|mes|fecha|época)|desde cuándo",
        number=(
            r"cuánt[oa]s?|cuál es (?:el|la) (?:tamaño|número|valor|edad|puerto|precio|duración|límite|altura|longitud"
            r"|porcentaje|cantidad)|qué (?:tamaño|número|valor|edad|puerto|porcentaje)"
        ),
        location=r"(?:a)?dónde|(?:qué|cuál) (?:ciudad|país|región|lugar|isla|estado)",
        code=(
            f"{_WHICH_ES} (?:es el |es la )?(?:orden|órdenes|comando|opción|parámetro|función|archivo|fichero"
            "|directorio|carpeta|ruta"
            "|paquete|programa|herramienta|script|módulo|clase|método|servicio|tecla|atajo|variable|directiva|formato"
            "|señal|protocolo|clave|atributo|campo|utilidad|demonio)e?s?"
        ),
        duration=r"cuánto (?:tiempo|tarda|dura)|cuánt[oa]s (?:segundos|minutos|horas|días|semanas|meses|años)",
        size=r"cuántos bytes|qué tamaño|cuál es el tamaño",
        key=r"qué (?:tecla|atajo|combinación)",
        option=r"qué (?:opción|parámetro)",
        file=(
            r"(?:qué|cuál) (?:archivo|fichero|directorio|carpeta|ruta)|dónde\b.*(?:guard|almacen|encuentr|declar|defin"
            r"|configur|escrib|indic|list|está)"
        ),
        package=r"qué (?:meta)?paquete",
        default=r"por (?:defecto|omisión)|predeterminad",
        account=r"\bresum(?:e|en|ir|a)\b|visión general|\bsíntesis\b|líneas generales",
    ),
    "it": Asking(
        words=rf"{_WHICH_IT}|come|quant[oaie]|perché|quando|dove|chi|cosa|qual",
        joins="e|ed|o|ma",
        goes_on=r"qual[ei]?|come|quant[oaie]|perché|quando|dove|chi|che cosa|cosa",
        person=r"chi|quale (?:persona|autore|sviluppatore)",
        date=r"quando|(?:che|quale) (?:anno|giorno|mese|data|epoca)|da quando",
        number=(
            "quant[oaie]|qual (?:è|era) (?:il|la|l['’]) ?(?:dimensione|numero|valore|età|porta|prezzo|durata"
            "|limite|altezza"
            r"|lunghezza|percentuale)|(?:che|quale) (?:dimensione|numero|valore|età|porta|percentuale)"
        ),
        location=r"dove|(?:che|quale) (?:città|paese|regione|luogo|isola|stato)",
        code=(
            "(?:che|quali?|quale) (?:è il |è la )?(?:comand[oi]|opzion[ei]|parametr[oi]|funzion[ei]|file"
            "|directory|cartell[ae]"
            "|percors[oi]|pacchett[oi]|programm[ai]|strument[oi]|script|modul[oi]|class[ei]|metod[oi]"
            "|servizi[o]?|tast[oi]"
            "|scorciatoi[ae]|variabil[ei]|direttiv[ae]|format[oi]|segnal[ei]|protocoll[oi]|chiav[ei]"
            "|attribut[oi]|camp[oi])"
        ),
        duration=r"quanto tempo|quant[ie] (?:secondi|minuti|ore|giorni|settimane|mesi|anni)",
        size=r"quanti byte|(?:che|quale) dimensione|quanto è grande",
        key=r"(?:che|quale|quali) (?:tast|scorciatoi|combinazion)",
        option=r"(?:che|quale|quali) (?:opzion|parametr)",
        file=(
            r"(?:che|quale|quali) (?:file|directory|cartell|percors)|dove\b.*(?:salva|memorizza|trova|dichiara|defini"
            r"|configura|scrit|indica|elenca|conserva)"
        ),
        package=r"(?:che|quale|quali) (?:meta)?pacchett",
        default=r"predefinit|in modo predefinito|impostazione predefinita",
        account=r"\briassum|\bsintesi\b|panoramica|\briassunto\b",
    ),
    "pt": Asking(
        words=rf"{_WHICH_PT}|como|quant[oa]s?|por ?qu[eê]|quando|(?:a)?onde|quem",
        joins="e|ou|mas",
        goes_on=rf"{_WHICH_PT}|como|quant[oa]s?|por ?qu[eê]|quando|onde|quem",
        person=r"quem|(?:que|qual) (?:pessoa|autor)",
        date=r"quando|(?:que|qual) (?:ano|dia|mês|data|época)|desde quando",
        number=(
            "quant[oa]s?|qual (?:é|era) (?:o|a) (?:tamanho|número|valor|idade|porta|preço|duração|limite|altura"
            "|comprimento"
            r"|percentagem|quantidade)|(?:que|qual) (?:tamanho|número|valor|idade|porta)"
        ),
        location=r"(?:a)?onde|(?:que|qual) (?:cidade|país|região|lugar|ilha|estado)",
        code=(
            f"{_WHICH_PT} (?:é o |é a )?(?:comando|opção|opções|parâmetro|função|funções|arquivo|ficheiro"
            "|diretório|directório|pasta"
            "|caminho|pacote|programa|ferramenta|script|módulo|classe|método|serviço|tecla|atalho|variável|diretiva"
            "|formato|sinal|protocolo|chave|atributo|campo|utilitário)s?"
        ),
        duration=r"quanto tempo|quant[oa]s (?:segundos|minutos|horas|dias|semanas|meses|anos)",
        size=r"quantos bytes|(?:que|qual) (?:é o )?tamanho",
        key=r"(?:que|qual|quais) (?:tecla|atalho|combinaç)",
        option=r"(?:que|qual|quais) (?:opç|parâmetro)",
        file=(
            r"(?:que|qual|quais) (?:arquivo|ficheiro|dire(?:c)?tório|pasta|caminho)|onde\b.*(?:guard|armazen"
            "|encontr|declar|defin"
            r"|configur|escrit|indic|list|grav|salv|fica)"
        ),
        default=r"por (?:padrão|omissão)|predefinid|pré-definid",
        account=r"\bresum(?:a|e|o|ir)\b|visão geral|\bsíntese\b|linhas gerais",
    ),
    "nl": Asking(
        words=r"welke?|hoe|hoeveel|waar(?:om|mee|voor|in|op|van|uit|aan|door|toe)?|wanneer|wie|wiens|wat",
        joins="en|of|maar",
        goes_on=r"welke?|hoe|hoeveel|waar(?:om|mee|voor|in|op|van|uit|aan|door|toe)?|wanneer|wie|wat",
        person=r"wie|wiens|welke (?:persoon|auteur|ontwikkelaar)",
        date=r"wanneer|welke? (?:jaar|dag|maand|datum)|sinds wanneer",
        number=(
            r"hoeveel|hoe (?:groot|hoog|lang|vaak|oud|diep|zwaar|breed|ver|snel)|welke? (?:\w*getal|\w*nummer|waarde"
            r"|grootte|poort|\w*limiet)"
        ),
        location=r"waar(?:heen|vandaan)?|welke? (?:stad|land|regio|plaats|eiland)",
        code=(
            r"welke? \w*(?:commando|opdracht|optie|parameter|functie|bestand|map|pad|pakket|programma|hulpmiddel"
            "|gereedschap"
            "|script|module|klasse|methode|dienst|toets|variabele|richtlijn|indeling|signaal|protocol|sleutel"
            "|veld)(?:en|s|’s)?"
        ),
        duration=r"hoe ?lang|hoeveel (?:seconden|minuten|uur|dagen|weken|maanden|jaar)|hoe vaak",
        size=r"hoe groot|hoeveel bytes",
        key=r"welke? (?:\w*toets|sneltoets)",
        option=r"welke? (?:\w*optie|parameter|schakelaar)",
        file=(
            r"welke? (?:\w*bestand|\w*map|pad)|waar\b.*(?:bewaard|opgeslagen|staa|vind|gedefinieerd|ingesteld"
            "|geschreven)"
        ),
        package=r"welke? (?:\w*pakket)",
        default=r"\bstandaard",
        account=r"\bsamenvat|\boverzicht\b|hoofdlijnen",
    ),
    "sv": Asking(
        words=r"vilke[nt]|vilka|hur|var|varför|när|vem|vad|varifrån|vart",
        joins="och|eller|men",
        goes_on=r"vilke[nt]|vilka|hur|varför|när|vem|vad|varifrån",
        person=r"vem|vilka personer",
        date=r"när|vilke[nt] (?:år|dag|månad|datum)",
        number=(
            r"hur (?:många|mycket|stor[at]?|hög[at]?|lång[at]?|länge|ofta|gamm\w+)|vilke[nt] (?:nummer|värde|storlek"
            "|gräns|port)"
        ),
        location=r"var|vart|varifrån|vilke[nt] (?:stad|land|plats|ö)",
        code=(
            r"vilke[nt] \w*(?:kommando|alternativ|flagga|parameter|funktion|fil|katalog|mapp|sökväg|paket|program"
            "|verktyg"
            "|skript|modul|klass|metod|tjänst|tangent|variabel|direktiv|format|signal|protokoll|nyckel|fält)"
        ),
        duration=r"hur länge|hur många (?:sekunder|minuter|timmar|dagar|veckor|månader|år)|hur ofta",
        size=r"hur stor|hur många byte",
        key=r"vilke[nt] (?:\w*tangent|genväg|snabbtangent)",
        option=r"vilke[nt] (?:alternativ|flagga|parameter)",
        file=r"vilke[nt] (?:\w*fil|\w*katalog|mapp|sökväg)|var\b.*(?:spara|lagra|finns|ligger|anges|definiera)",
        package=r"vilket \w*paket",
        default=r"\bstandard|förval|förvalt",
        account=r"sammanfatt|överblick|\böversikt\b",
    ),
    "pl": Asking(
        words=rf"{_WHICH_PL}|jak|ile|ilu|kiedy|gdzie|skąd|dokąd|dlaczego|kto|kogo|komu|kim|co|czego|czym|czyj",
        joins="i|oraz|a|lub|albo|ale",
        goes_on=rf"{_WHICH_PL}|jak|ile|ilu|kiedy|gdzie|skąd|dlaczego|kto|kogo|co|czym",
        person="kto|kogo|komu|kim|czyj",
        date=r"kiedy|(?:którym|jakim) (?:roku|dniu|miesiącu)|od kiedy",
        number=(
            rf"ile|ilu|jak (?:dużo|długo|często|wysok\w+|duż\w+|wiele)|{_WHICH_PL} (?:jest )?(?:rozmiar|liczb\w+|numer"
            "|wartość|wysokość|długość|limit|port)"
        ),
        location=rf"gdzie|skąd|dokąd|{_WHICH_PL} (?:mieści\w+|kraj\w+|region\w+|miejsc\w+)",
        code=(
            rf"{_WHICH_PL} (?:\w+ )?(?:jest )?(?:poleceni\w+|opcj\w+|parametr\w*|funkcj\w+|plik\w*|katalog\w*"
            r"|folder\w*|ścieżk\w+|pakie\w+"
            r"|program\w*|narzędzi\w+|skrypt\w*|moduł\w*|klas\w+|metod\w+|usług\w+|klawisz\w*|skrót\w*|zmienn\w+"
            r"|dyrektyw\w+|format\w*|sygnał\w*|protok\w+|klucz\w*|pol\w+|znak\w*)"
        ),
        duration=r"jak długo|ile (?:sekund|minut|godzin|dni|tygodni|miesięcy|lat)|jak często",
        size=r"jak duż\w+|ile bajtów|jaki rozmiar",
        key=rf"{_WHICH_PL} (?:klawisz|skrót)",
        option=rf"{_WHICH_PL} (?:opcj|parametr|przełącznik)",
        file=rf"{_WHICH_PL} (?:plik|katalog|folder|ścieżk)|gdzie\b.*(?:zapis|przechow|znajd|leż|definiow)",
        package=rf"{_WHICH_PL} (?:meta)?pakie",
        default=r"domyśln",
        account=r"\bpodsum|\bstreść|streszczeni|przegląd",
    ),
    "cs": Asking(
        words=rf"{_WHICH_CS}|jak|kolik|kdy|kde|kam|odkud|proč|kdo|koho|komu|kým|co|čeho|čím",
        joins="a|nebo|ale|i",
        goes_on=rf"{_WHICH_CS}|jak|kolik|kdy|kde|odkud|proč|kdo|koho|co|čím",
        person="kdo|koho|komu|kým|čí",
        date=r"kdy|(?:kterém|jakém) (?:roce|měsíci)|který den|od kdy",
        number=(
            rf"kolik|jak (?:dlouho|často|velk\w+|vysok\w+|dlouh\w+)|{_WHICH_CS} (?:je )?(?:velikost|počet|číslo"
            r"|hodnot\w+|limit|port)"
        ),
        location=rf"kde|kam|odkud|{_WHICH_CS} (?:měst\w+|zem\w+|míst\w+)",
        code=(
            rf"{_WHICH_CS} (?:příkaz\w*|přepínač\w*|volb\w+|parametr\w*|funkc\w+|soubor\w*|adresář\w*|složk\w+"
            r"|cest\w+|balí\w+|program\w*"
            r"|nástroj\w*|skript\w*|modul\w*|tříd\w+|metod\w+|služb\w+|kláves\w+|zkratk\w+|proměnn\w+|direktiv\w+"
            r"|formát\w*"
            r"|signál\w*|protokol\w*|klíč\w*|pol\w+)"
        ),
        duration=r"jak dlouho|kolik (?:sekund|minut|hodin|dní|týdnů|měsíců|let)|jak často",
        size=r"jak velk\w+|kolik bajtů",
        key=rf"{_WHICH_CS} (?:kláves|zkratk)",
        option=rf"{_WHICH_CS} (?:volb|parametr|přepínač)",
        file=rf"{_WHICH_CS} (?:soubor|adresář|složk|cest)|kde\b.*(?:ulož|uklád|nacház|najd|definov)",
        package=rf"{_WHICH_CS} (?:meta)?balí",
        default=r"výchoz|implicitn",
        account=r"\bshrň|shrnutí|souhrn|přehled",
    ),
    "tr": Asking(
        words=r"hangi\w*|nasıl|kaç\w*|ne(?:yi|den|ye|yle|rede|reye|reden)?|neden|niçin|niye|kim\w{0,3}",
        joins="ve|veya|ama|ise",
        person=r"kim(?:in|i|e|den|ler)?",
        date=r"ne zaman|hangi (?:yıl|gün|ay|tarih)\w*|kaç yılında",
        number=r"kaç\w*|ne kadar|hangi (?:boyut|sayı|değer|numara|port)\w*",
        location=r"nere\w+|hangi (?:şehir|ülke|bölge|yer)\w*",
        code=(
            "hangi (?:komut|seçene|parametre|işlev|fonksiyon|dosya|dizin|klasör|yol|paket|program|araç|araçla"
            "|betik|modül|sınıf"
            r"|yöntem|hizmet|tuş|kısayol|değişken|biçim|sinyal|protokol|anahtar|alan)\w*"
            r"|(?:komut|seçenek|parametre|işlev|dosya|dizin|paket|program|tuş)\w* (?:hangi|ne)\w*"
        ),
        duration=r"ne kadar süre|kaç (?:saniye|dakika|saat|gün|hafta|ay|yıl)",
        size=r"kaç bayt|ne kadar büyük",
        key=r"hangi (?:tuş|kısayol)|tuş\w* (?:hangi|ne)",
        option=r"hangi (?:seçene|parametre)|(?:seçenek|parametre)\w* (?:hangi|ne)",
        file=r"hangi (?:dosya|dizin|klasör|yol)|(?:dosya|dizin)\w* (?:hangi|ne)|nere\w+ (?:sakla|kayded|bulun|yazıl)",
        package=r"hangi \w*paket|paket\w* (?:hangi|ne)",
        default=r"varsayılan|öntanımlı",
        account=r"\bözet|genel bakış",
    ),
    "ru": Asking(
        words=rf"{_WHICH_RU}|как|сколько|когда|где|куда|откуда|почему|зачем|кто|кого|кому|кем|что|чего|чему|чем|чей",
        joins="и|а|или|но",
        goes_on=rf"{_WHICH_RU}|как|сколько|когда|где|куда|откуда|почему|зачем|кто|кого|кем|что|чем",
        person="кто|кого|кому|кем|чей|чья",
        date=r"когда|(?:каком|котором) (?:году|месяце)|какого (?:числа|года)|какой (?:день|год)",
        number=(
            rf"сколько|{_WHICH_RU} (?:размер|числ|номер|значени|высот|длин|предел|порт|возраст|цен|количеств)\w*"
            r"|как (?:долго|часто|велик\w*)"
        ),
        location=rf"где|куда|откуда|{_WHICH_RU} (?:город|стран|област|мест|остров)\w*",
        code=(
            f"{_WHICH_RU} (?:команд|опци|параметр|ключ|функци|файл|каталог|папк|пут|пакет|программ|инструмент"
            "|утилит|скрипт"
            r"|сценари|модул|класс|метод|служб|клавиш|сочетани|переменн|директив|формат|сигнал|протокол|пол)\w*"
        ),
        duration=r"как долго|сколько (?:времени|секунд|минут|часов|дней|недель|месяцев|лет)|как часто",
        size=rf"сколько байт|{_WHICH_RU} размер",
        key=rf"{_WHICH_RU} (?:клавиш|сочетани)",
        option=rf"{_WHICH_RU} (?:опци|параметр|ключ)",
        file=rf"{_WHICH_RU} (?:файл|каталог|папк|пут)|где\b.*(?:хран|наход|леж|перечисл|указ|запис|сохран|опис|опред)",
        package=rf"{_WHICH_RU} (?:мета)?пакет",
        default=r"по умолчанию",
        account=r"\bобобщи|\bподыто|краткое (?:содержание|изложение)|\bобзор\b|\bрезюм",
    ),
    "ja": Asking(
        words=(
            "何|誰|いつ|どこ|どの|どれ|どう|どちら|どんな|なぜ|いくつ|いくら|(?:する|なる|ない|ぶ|む|う|く"
            "|る)には(?=[?？、。]|$)|は(?=[?？]|$)"
        ),
        joins=(
            r"(?:[?？]|(?<=か)。|(?<=[でま]すか)、)\s*(?:(?:また|そして|それから|さらに)(?!は)[、,]?)?(?=[^?？。、\s])"
        ),
        person=r"誰|どなた|何という人",
        date=r"いつ|何年|何月|何日|何時",
        number=(
            "いくつ|いくら|何(?:個|人|台|回|件|本|枚|文字|桁|番|歳|パーセント|メートル|バイト|秒|分|時間|日)"
            "|どれ(?:くらい|ぐらい|だけ|ほど)|サイズはどれ"
        ),
        location=r"どこ|どの(?:国|都市|町|場所|地域|県)",
        code=(
            "(?:どの|何の|どんな|どういう)(?:コマンド|オプション|引数|パラメータ|関数|ファイル|ディレクトリ"
            "|フォルダ|パス|パッケージ|プログラム|ツール|スクリプト"
            r"|モジュール|クラス|メソッド|サービス|キー|ショートカット|変数|形式|シグナル|プロトコル|設定)"
            "|(?:コマンド|オプション|引数|パラメータ|関数|ファイル|ディレクトリ|パッケージ|プログラム|ツール"
            "|スクリプト|キー|変数|形式|設定)(?:名)?は(?:何|どれ|[?？]|$)"
        ),
        duration=r"何(?:秒|分|時間|日|週間|か月|年)(?:間)?|どれ(?:くらい|ぐらい|だけ)の(?:時間|期間|間)",
        size=r"何バイト|サイズ(?:は|が)(?:どれ|いくつ)",
        key=r"(?:どの|何の)(?:キー|ショートカット)|キーは(?:何|どれ|[?？]|$)",
        option=r"(?:どの|何の)(?:オプション|引数|パラメータ)|(?:オプション|引数|パラメータ)は(?:何|どれ|[?？]|$)",
        file=(
            "(?:どの|何の)(?:設定)?(?:ファイル|ディレクトリ|フォルダ|パス)|(?:ファイル|ディレクトリ)は(?:何|どれ"
            "|どこ|[?？]|$)|どこに(?:保存|書|置|記録|あり|格納|定義)"
        ),
        package=r"(?:どの|何の)パッケージ|パッケージは(?:何|どれ|[?？]|$)",
        default=r"デフォルト|既定|初期値|標準では",
        account=r"要約|概要|まとめて",
    ),
    "ko": Asking(
        words=r"무엇|무슨|뭐|누구|누가|언제|어디|어느|어떤|어떻게|왜|몇|얼마|(?:은|는)(?=[?？]|$)",
        joins=r"[?？]\s*(?:그리고|또|또한)?,?\s*(?=\S)|(?<=[고며]),?\s+(?:그리고\s+)?",
        person=r"누구|누가|누굴",
        date=r"언제|몇 (?:년|월|일|시)|어느 (?:해|날)",
        number=r"몇|얼마|(?:크기|개수|값|높이|길이|번호|포트)(?:은|는|이|가) (?:얼마|몇)",
        location=r"어디|어느 (?:나라|도시|곳|지역)",
        code=(
            "(?:어떤|어느|무슨) (?:명령어?|옵션|매개 ?변수|인수|함수|파일|디렉터리|디렉토리|폴더|경로|패키지"
            "|프로그램|도구|스크립트|모듈|클래스"
            r"|메서드|서비스|키|단축키|변수|형식|시그널|프로토콜)"
            "|(?:명령어?|옵션|매개 ?변수|함수|파일|디렉터리|패키지|프로그램|도구|키|변수)(?:은|는) ?(?:무엇"
            "|뭐|어떤|[?？]|$)"
        ),
        duration=r"얼마나 (?:오래|자주)|몇 (?:초|분|시간|일|주|개월|달|년)",
        size=r"몇 바이트|크기(?:는|가) 얼마|얼마나 (?:크|큰)",
        key=r"(?:어떤|어느|무슨) (?:키|단축키)|키(?:는|가) 무엇",
        option=r"(?:어떤|어느|무슨) (?:옵션|매개 ?변수|인수)|(?:옵션|매개 ?변수)(?:은|는) ?(?:무엇|[?？]|$)",
        file=r"(?:어떤|어느|무슨) (?:파일|디렉터리|디렉토리|폴더|경로)|어디에 (?:저장|있|기록|적혀|보관|정의)",
        package=r"(?:어떤|어느|무슨) 패키지|패키지(?:는|가) 무엇",
        default=r"기본(?:값|적|으로)|디폴트",
        account=r"요약|개요|간추",
    ),
}


@cache
def asks(language: str, what: str) -> re.Pattern[str] | None:
    """Return the pattern of a language for a field of `Asking`; None where it has none.

    In a language with spaces the pattern matches from the start of a word, and whole words in fields without
    inflection.
    """
    part = getattr(ASKING[language], what) if language in ASKING else ""
    if not part:
        return None
    is_spaced = language not in ("ja", "ko")
    ends = r"(?!\w)" if what in _WHOLE_WORDS else ""
    return re.compile(rf"(?<!\w)(?:{part}){ends}" if is_spaced else part, re.IGNORECASE)


_WHOLE_WORDS = frozenset({"words", "goes_on", "person", "date", "number", "location", "code"})
# How many characters of a question are searched for the word that opens it.
_LONGEST_OPENING = 100
# What may stand before the question word that opens a question, also without accents: "in which", "d'où".
_BEFORE_OPENING = (
    r"(?:in|an|auf|mit|von|zu|bei|aus|nach|seit|fur|uber|durch|ab|und|a|de|en|et|dans|sur|avec|pour|par|chez|depuis"
    r"|con|por|para|desde|sobre|segun|hasta|y|e|di|da|su|per|o|em|com|ate|na|op|met|voor|aan|door|naar|sinds|i|pa|av"
    r"|med|till|w|z|do|od|ku|v|ve|ze|k|s|u|pro|při|pri|für|über|à|según|até|på)\s+|d['’]"
)
# Question words that are also names or words of other languages ("Kim", "Dove", "var", "Co-op", "comment"): without a
# question mark, or capitalised before another capitalised word, they count for nothing.
_ELSEWHERE_TOO = re.compile(
    r"che|chi|co|come|comment|como|dove|hoe|hur|jak|kam|kim|ne|qual|quale|quando|que|qui|var|vart|wat|wie|wo",
    re.IGNORECASE,
)


def without_accents(text: str) -> str:
    """Return a text without accents, which people leave out when they type in haste or in a foreign language."""
    if text.isascii():
        return text
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))


@cache
def _opens(language: str, *, is_bare: bool) -> re.Pattern[str]:
    words = without_accents(ASKING[language].words) if is_bare else ASKING[language].words
    return re.compile(rf"\W*(?:{_BEFORE_OPENING})?(?P<word>{words})(?!\w)(?P<name>\s+(?-i:[A-Z][a-z]))?", re.IGNORECASE)


def question_word_at(text: str, language: str) -> re.Match[str] | None:
    """Match a question word at the start of a text, after at most one short word; the match's group is `word`."""
    return _begins(language).match(text)


@cache
def _begins(language: str) -> re.Pattern[str]:
    words = ASKING[language].words
    return re.compile(rf"\W*(?:\w{{1,6}}\s+)??(?P<word>{words})(?!\w)", re.IGNORECASE)


MOST_OPENING_WEIGHT = 2


def opening_weight(question: str, language: str) -> int:
    """Return how strongly the first word suggests a language with spaces: 2 for a question word of it.

    A question word without its accents gives 1, as does a word that asks for an account ("Résume ..."), because both
    may be words of other languages.
    """
    head = question[:_LONGEST_OPENING]
    exact = _opens(language, is_bare=False).match(head)
    if opening := exact or _opens(language, is_bare=True).match(without_accents(head)):
        is_elsewhere = _ELSEWHERE_TOO.fullmatch(opening["word"])
        is_name = opening["word"][0].isupper() and opening["name"] is not None
        is_doubtful = is_elsewhere and (is_name or not question.rstrip().endswith("?"))
        return 0 if is_doubtful else 2 if exact else 1
    account = asks(language, "account")
    return int(bool(account and account.match(question)))
