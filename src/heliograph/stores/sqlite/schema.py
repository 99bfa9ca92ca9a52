"""The tables of the embedded store, as numbered migrations.

A migration and the record that it ran are one transaction; `PRAGMA user_version` is that record. Ids are interned
once in `identity`; every other table refers to them by integer key. A commit's cost is the pages that it touches:
wide columns that are rarely rewritten are kept apart from narrow ones that change often (degrees, evidence), changes
are logged by appending, and the index of degrees holds only well-connected entities.
"""

from __future__ import annotations

from typing import Any

import apsw

from heliograph.errors import SchemaMismatch
from heliograph.ids import relation_id
from heliograph.stores.graph import name_keys_json, name_terms
from heliograph.stores.sql import CHUNKS, transaction

APPLICATION_ID = 0x48454C49  # "HELI"

# Terms arrive analysed and separated by spaces: the tokenizer must only split there and change nothing.
_TOKENIZER = """tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* P* S* Co'" """

_CREATE = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES ('data_version', 0);

CREATE TABLE identity (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);

CREATE TABLE document (
  key INTEGER PRIMARY KEY, source TEXT NOT NULL, title TEXT NOT NULL, content_hash TEXT NOT NULL,
  status TEXT NOT NULL, error TEXT NOT NULL, metadata TEXT NOT NULL, length INTEGER NOT NULL,
  chunk_count INTEGER NOT NULL, track_id TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
  created_at REAL NOT NULL, updated_at REAL NOT NULL
);
CREATE INDEX document_by_status ON document (status, updated_at);
CREATE INDEX document_by_source ON document (source);
CREATE INDEX document_by_track ON document (track_id);
CREATE TABLE document_text (key INTEGER PRIMARY KEY, text TEXT NOT NULL);

CREATE TABLE chunk (
  key INTEGER PRIMARY KEY, document_key INTEGER NOT NULL, position INTEGER NOT NULL, token_count INTEGER NOT NULL,
  start INTEGER NOT NULL, "end" INTEGER NOT NULL, page INTEGER, headings TEXT NOT NULL
);
CREATE INDEX chunk_by_document ON chunk (document_key, position);
CREATE TABLE chunk_text (key INTEGER PRIMARY KEY, text TEXT NOT NULL);

CREATE TABLE extraction (
  chunk_key INTEGER PRIMARY KEY, extractor TEXT NOT NULL, error TEXT NOT NULL, reply_keys TEXT NOT NULL,
  input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL
);
CREATE TABLE entity_mention (
  entity_key INTEGER NOT NULL, rank INTEGER NOT NULL, chunk_key INTEGER NOT NULL, ordinal INTEGER NOT NULL,
  name TEXT NOT NULL, type TEXT NOT NULL, description TEXT NOT NULL,
  PRIMARY KEY (entity_key, rank, chunk_key, ordinal)
) WITHOUT ROWID;
CREATE INDEX entity_mention_by_chunk ON entity_mention (chunk_key);
CREATE TABLE relation_mention (
  relation_key INTEGER NOT NULL, rank INTEGER NOT NULL, chunk_key INTEGER NOT NULL, ordinal INTEGER NOT NULL,
  source TEXT NOT NULL, target TEXT NOT NULL, keywords TEXT NOT NULL, description TEXT NOT NULL, weight REAL NOT NULL,
  PRIMARY KEY (relation_key, rank, chunk_key, ordinal)
) WITHOUT ROWID;
CREATE INDEX relation_mention_by_chunk ON relation_mention (chunk_key);
CREATE TABLE entity_evidence (
  key INTEGER PRIMARY KEY, names TEXT NOT NULL, types TEXT NOT NULL, mention_count INTEGER NOT NULL,
  version INTEGER NOT NULL
);
CREATE TABLE relation_evidence (
  key INTEGER PRIMARY KEY, source_key INTEGER NOT NULL, target_key INTEGER NOT NULL, keywords TEXT NOT NULL,
  weight_millionths INTEGER NOT NULL, mention_count INTEGER NOT NULL, version INTEGER NOT NULL
);

CREATE TABLE entity (
  key INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, token_count INTEGER NOT NULL,
  created_at INTEGER NOT NULL, description TEXT NOT NULL, aliases TEXT NOT NULL, chunk_ids TEXT NOT NULL
);
CREATE TABLE entity_degree (key INTEGER PRIMARY KEY, degree INTEGER NOT NULL);
CREATE INDEX entity_by_degree ON entity_degree (degree) WHERE degree >= 16;
CREATE TABLE relation (
  key INTEGER PRIMARY KEY, source_key INTEGER NOT NULL, target_key INTEGER NOT NULL, weight REAL NOT NULL,
  token_count INTEGER NOT NULL, created_at INTEGER NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
  keywords TEXT NOT NULL, description TEXT NOT NULL, chunk_ids TEXT NOT NULL
);
CREATE INDEX relation_by_source ON relation (source_key, target_key, weight);
CREATE INDEX relation_by_target ON relation (target_key, source_key, weight);

CREATE TABLE chunks_vector (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE entities_vector (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE relations_vector (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);
-- Keys that a version put or removed, as little-endian 64-bit integers one after the other.
CREATE TABLE vector_change (
  collection TEXT NOT NULL, version INTEGER NOT NULL, keys BLOB NOT NULL, PRIMARY KEY (collection, version)
) WITHOUT ROWID;
CREATE TABLE accelerator (collection TEXT PRIMARY KEY, version INTEGER NOT NULL, writer TEXT NOT NULL) WITHOUT ROWID;

CREATE VIRTUAL TABLE chunks_terms USING fts5 (terms, content = '', contentless_delete = 1, {_TOKENIZER});
CREATE VIRTUAL TABLE entities_terms USING fts5 (terms, content = '', contentless_delete = 1, {_TOKENIZER});

CREATE TABLE reply (
  key TEXT PRIMARY KEY, cache_type TEXT NOT NULL, text TEXT NOT NULL, model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, chunk_id TEXT NOT NULL, created_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX reply_by_type ON reply (cache_type);
CREATE INDEX reply_by_chunk ON reply (chunk_id) WHERE chunk_id <> '';
"""

# Vectors of an embedding that is to replace the current one, until all are there.
_REEMBED = "".join(
    f"CREATE TABLE next_{name}_vector (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);"
    for name in ("chunks", "entities", "relations")
)

# A mention stores which entity it counts for: `name_hash` (of the id of its name) and the keys of a relation's ends are
# null where its names decide it. `relation_id` is created by `migrate`.
_CURATION = """
ALTER TABLE entity_mention ADD COLUMN name_hash INTEGER;
CREATE INDEX entity_mention_by_name ON entity_mention (name_hash) WHERE name_hash IS NOT NULL;
ALTER TABLE relation_mention ADD COLUMN source_key INTEGER;
ALTER TABLE relation_mention ADD COLUMN target_key INTEGER;
CREATE TABLE alias_mention (
  chunk_key INTEGER NOT NULL, ordinal INTEGER NOT NULL, name TEXT NOT NULL, alias TEXT NOT NULL,
  PRIMARY KEY (chunk_key, ordinal)
) WITHOUT ROWID;

CREATE TABLE curation (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, content TEXT NOT NULL,
  author TEXT NOT NULL, created_at REAL NOT NULL, undone_by TEXT NOT NULL, undone_at REAL
);
CREATE TABLE curation_subject (
  entity_id TEXT NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY (entity_id, sequence)
) WITHOUT ROWID;
CREATE TABLE name_rules (
  id TEXT PRIMARY KEY, names TEXT NOT NULL, aliases TEXT NOT NULL, version INTEGER NOT NULL
) WITHOUT ROWID;

UPDATE identity SET id = relation_id(source.id, target.id)
FROM relation_evidence AS evidence, identity AS source, identity AS target
WHERE identity.key = evidence.key AND source.key = evidence.source_key AND target.key = evidence.target_key;
UPDATE relation_evidence SET source_key = target_key, target_key = source_key
WHERE (SELECT id FROM identity WHERE key = source_key) > (SELECT id FROM identity WHERE key = target_key);
"""

# A twin has the text of another document, which holds the chunks for both.
_TWINS = """
ALTER TABLE document ADD COLUMN twin_key INTEGER;
CREATE INDEX document_by_twin ON document (twin_key) WHERE twin_key IS NOT NULL;
CREATE INDEX document_by_content ON document (content_hash);
"""

# `name_keys` and `name_terms` are created by `migrate`.
_NAMES = """
CREATE TABLE entity_name (name TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (name, key)) WITHOUT ROWID;
INSERT INTO entity_name SELECT each.value, entity.key FROM entity, json_each(name_keys(name, aliases)) AS each;
CREATE VIRTUAL TABLE names_terms USING fts5 (
  terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
INSERT INTO names_terms (rowid, terms) SELECT key, name_terms(name, aliases) FROM entity;
"""

# Changes that the slowest reader beside this store has not read; nothing is recorded without readers.
_OUTBOX = """
CREATE TABLE outbox_reader (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE outbox (
  kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX outbox_by_version ON outbox (version);
"""

# Merge four segments of like size at once, not sixteen.
_FEWER_PARTS = """
INSERT INTO chunks_terms (chunks_terms, rank) VALUES ('crisismerge', 4);
INSERT INTO entities_terms (entities_terms, rank) VALUES ('crisismerge', 4);
"""

# Fills in missing words from the full text, which does not keep their order.
FILL_WORDS = "".join(
    f"""
CREATE VIRTUAL TABLE temp.{name}_rows USING fts5vocab (main, {name}_terms, instance);
INSERT INTO {name}_words SELECT doc, group_concat(term, ' ') FROM temp.{name}_rows
WHERE doc IN (SELECT id FROM {name}_terms_docsize) AND doc NOT IN (SELECT key FROM {name}_words) GROUP BY doc;
INSERT OR IGNORE INTO {name}_words SELECT id, '' FROM {name}_terms_docsize;
DROP TABLE temp.{name}_rows;
"""
    for name in ("chunks", "entities")
)

# The words of each item, in order; `vector_change` is also the log of its changes.
_WORDS = f"""
CREATE TABLE chunks_words (key INTEGER PRIMARY KEY, terms TEXT NOT NULL);
CREATE TABLE entities_words (key INTEGER PRIMARY KEY, terms TEXT NOT NULL);
{FILL_WORDS}
"""

# Checksum of the file when its version was recorded; older files have none and are rebuilt.
_CHECKED_FILES = """
ALTER TABLE accelerator ADD COLUMN checksum TEXT NOT NULL DEFAULT '';
UPDATE accelerator SET version = 0;
"""

# The column of a new field is created by its declaration: `DOCUMENTS.added("document", "name")` (`stores/sql.py`) is a
# whole migration. Migrations that are written out here are older than that.
_MIGRATIONS = (
    *(_CREATE, "ALTER TABLE reply RENAME COLUMN chunk_id TO subject_id;", _REEMBED),
    *("ALTER TABLE document ADD COLUMN page_starts TEXT NOT NULL DEFAULT '[]';", _CURATION, _TWINS),
    *("ALTER TABLE chunk ADD COLUMN context TEXT NOT NULL DEFAULT '';", _NAMES, _OUTBOX, _FEWER_PARTS),
    *(_WORDS, _CHECKED_FILES, CHUNKS.added("chunk", "columns")),
)

LATEST_VERSION = len(_MIGRATIONS)


def migrate(connection: apsw.Connection, path: str) -> None:
    """Bring a database to the latest schema; a current one is not written to.

    Raises:
        SchemaMismatch: The file belongs to another program or to a newer version.
    """
    version, application = (int(connection.pragma(name)) for name in ("user_version", "application_id"))
    if version > LATEST_VERSION:
        raise SchemaMismatch(
            f"the store {path!r} has schema {version}, this version of Heliograph knows {LATEST_VERSION}; "
            "upgrade Heliograph (pip install -U heliograph) or open another folder"
        )
    if application not in (0, APPLICATION_ID) or (application == 0 and has_tables(connection)):
        raise SchemaMismatch(f"the file {path!r} is a database of another program; choose another data_dir")
    if version == LATEST_VERSION:
        return
    connection.create_scalar_function("relation_id", _relation_id, 2, deterministic=True)
    connection.create_scalar_function("name_keys", name_keys_json, 2, deterministic=True)
    connection.create_scalar_function("name_terms", name_terms, 2, deterministic=True)
    # Sorting all words of a store may take more memory than there is.
    kept = int(connection.pragma("temp_store"))
    connection.pragma("temp_store", "file")
    try:
        with transaction(connection):
            # Another process may have migrated while this one waited for the lock.
            for number in range(int(connection.pragma("user_version")), LATEST_VERSION):
                connection.execute(_MIGRATIONS[number])
                connection.pragma("user_version", number + 1)
            connection.pragma("application_id", APPLICATION_ID)
    finally:
        connection.pragma("temp_store", kept)


def _relation_id(*ends: Any) -> str:
    return relation_id(*map(str, ends))


def has_tables(connection: apsw.Connection) -> bool:
    """Whether a file holds any table."""
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema").get)
