"""The tables on PostgreSQL, as numbered migrations.

`lightrag_chunks`, `lightrag_entities` and `lightrag_relationships` have the columns that LightRAG's users know, and
chunks a few more; all others are called `heliograph_...`. Every key begins with the workspace. Text is compared by code
points (collation C), as Python compares it. Columns that are often rewritten (degrees, evidence) are kept in tables of
their own, apart from wide or vector-indexed columns: a changed row is a new row to PostgreSQL, in every index.
"""

from __future__ import annotations

from heliograph.errors import SchemaMismatch
from heliograph.stores.postgres.database import Session, Statement
from heliograph.stores.sql import CHUNKS

_LOCK_KEY = 0x48454C494F475250  # "HELIOGRP"
_OLDEST_PGVECTOR = (0, 8)

_CREATE = """
CREATE TABLE heliograph_workspace (
  name text COLLATE "C" PRIMARY KEY, data_version bigint NOT NULL DEFAULT 0,
  embedding_name text NOT NULL, embedding_dimension integer NOT NULL,
  next_embedding_name text, next_embedding_dimension integer
);

CREATE TABLE heliograph_document (
  workspace text COLLATE "C", id text COLLATE "C", source text COLLATE "C" NOT NULL, title text COLLATE "C" NOT NULL,
  content_hash text COLLATE "C" NOT NULL, status text COLLATE "C" NOT NULL, error text NOT NULL,
  metadata jsonb NOT NULL, metadata_text text NOT NULL, length integer NOT NULL, chunk_count integer NOT NULL,
  track_id text COLLATE "C" NOT NULL, input_tokens bigint NOT NULL, output_tokens bigint NOT NULL,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, page_starts text NOT NULL,
  twin_of text COLLATE "C" NOT NULL, PRIMARY KEY (workspace, id)
);
CREATE INDEX heliograph_document_by_status ON heliograph_document (workspace, status, updated_at);
CREATE INDEX heliograph_document_by_source ON heliograph_document (workspace, source);
CREATE INDEX heliograph_document_by_track ON heliograph_document (workspace, track_id);
CREATE INDEX heliograph_document_by_content ON heliograph_document (workspace, content_hash);
CREATE INDEX heliograph_document_by_twin ON heliograph_document (workspace, twin_of) WHERE twin_of <> '';
CREATE TABLE heliograph_document_text (
  workspace text COLLATE "C", id text COLLATE "C", text text NOT NULL, PRIMARY KEY (workspace, id)
);

CREATE TABLE lightrag_chunks (
  workspace text COLLATE "C", id text COLLATE "C", full_doc_id text COLLATE "C" NOT NULL,
  chunk_order_index integer NOT NULL, tokens integer NOT NULL, content text NOT NULL, embedding vector,
  start_offset integer NOT NULL, end_offset integer NOT NULL, page integer, headings text NOT NULL,
  context text NOT NULL, PRIMARY KEY (workspace, id)
);
CREATE INDEX lightrag_chunks_by_document ON lightrag_chunks (workspace, full_doc_id);
CREATE TABLE lightrag_entities (
  workspace text COLLATE "C", id text COLLATE "C", entity_name text NOT NULL, content text NOT NULL,
  embedding vector NOT NULL, PRIMARY KEY (workspace, id)
);
CREATE TABLE lightrag_relationships (
  workspace text COLLATE "C", id text COLLATE "C", src_id text NOT NULL, tgt_id text NOT NULL, content text NOT NULL,
  embedding vector NOT NULL, PRIMARY KEY (workspace, id)
);
-- A search reads vectors by the hundred: they stay in the row as long as they fit.
ALTER TABLE lightrag_chunks ALTER COLUMN embedding SET STORAGE MAIN;
ALTER TABLE lightrag_entities ALTER COLUMN embedding SET STORAGE MAIN;
ALTER TABLE lightrag_relationships ALTER COLUMN embedding SET STORAGE MAIN;
CREATE TABLE heliograph_next_vector (
  workspace text COLLATE "C", collection text COLLATE "C", id text COLLATE "C", embedding vector NOT NULL,
  PRIMARY KEY (workspace, collection, id)
);

CREATE TABLE heliograph_extraction (
  workspace text COLLATE "C", chunk_id text COLLATE "C", extractor text NOT NULL, error text NOT NULL,
  reply_keys text NOT NULL, input_tokens bigint NOT NULL, output_tokens bigint NOT NULL,
  PRIMARY KEY (workspace, chunk_id)
);
-- `entity_id` is what the mention counts for; `name_id` what its name alone stands for, where that is something else
-- or was decided otherwise. `source_id` and `target_id` are empty where the names decide.
CREATE TABLE heliograph_entity_mention (
  workspace text COLLATE "C", entity_id text COLLATE "C", rank bigint, chunk_id text COLLATE "C", ordinal integer,
  name text NOT NULL, type text NOT NULL, description text NOT NULL, name_id text COLLATE "C",
  PRIMARY KEY (workspace, entity_id, rank, chunk_id, ordinal)
);
CREATE INDEX heliograph_entity_mention_by_chunk ON heliograph_entity_mention (workspace, chunk_id);
CREATE INDEX heliograph_entity_mention_by_name ON heliograph_entity_mention (workspace, name_id)
  WHERE name_id IS NOT NULL;
CREATE TABLE heliograph_relation_mention (
  workspace text COLLATE "C", relation_id text COLLATE "C", rank bigint, chunk_id text COLLATE "C", ordinal integer,
  source text NOT NULL, target text NOT NULL, keywords json NOT NULL, description text NOT NULL,
  weight double precision NOT NULL, source_id text NOT NULL, target_id text NOT NULL,
  PRIMARY KEY (workspace, relation_id, rank, chunk_id, ordinal)
);
CREATE INDEX heliograph_relation_mention_by_chunk ON heliograph_relation_mention (workspace, chunk_id);
CREATE TABLE heliograph_alias_mention (
  workspace text COLLATE "C", chunk_id text COLLATE "C", ordinal integer, name text NOT NULL, alias text NOT NULL,
  PRIMARY KEY (workspace, chunk_id, ordinal)
);
CREATE TABLE heliograph_entity_evidence (
  workspace text COLLATE "C", id text COLLATE "C", names text NOT NULL, types text NOT NULL,
  mention_count integer NOT NULL, version bigint NOT NULL, PRIMARY KEY (workspace, id)
) WITH (fillfactor = 80);
CREATE TABLE heliograph_relation_evidence (
  workspace text COLLATE "C", id text COLLATE "C", source_id text NOT NULL, target_id text NOT NULL,
  keywords text NOT NULL, weight_millionths bigint NOT NULL, mention_count integer NOT NULL, version bigint NOT NULL,
  PRIMARY KEY (workspace, id)
) WITH (fillfactor = 80);

CREATE TABLE heliograph_entity (
  workspace text COLLATE "C", id text COLLATE "C", name text COLLATE "C" NOT NULL, type text NOT NULL,
  description text NOT NULL, aliases text NOT NULL, chunk_ids text NOT NULL, token_count integer NOT NULL,
  created_at bigint NOT NULL, PRIMARY KEY (workspace, id)
) WITH (fillfactor = 80);
CREATE TABLE heliograph_degree (
  workspace text COLLATE "C", id text COLLATE "C", degree integer NOT NULL, PRIMARY KEY (workspace, id)
) WITH (fillfactor = 70);
-- Most entities never get into it, so that most changes of a degree stay within their page.
CREATE INDEX heliograph_degree_of_well_connected ON heliograph_degree (workspace, degree) WHERE degree >= 16;
CREATE TABLE heliograph_relation (
  workspace text COLLATE "C", id text COLLATE "C", source_id text COLLATE "C" NOT NULL,
  target_id text COLLATE "C" NOT NULL, source text NOT NULL, target text NOT NULL, keywords text NOT NULL,
  description text NOT NULL, weight double precision NOT NULL, chunk_ids text NOT NULL, token_count integer NOT NULL,
  created_at bigint NOT NULL, PRIMARY KEY (workspace, id)
) WITH (fillfactor = 80);
CREATE INDEX heliograph_relation_by_source ON heliograph_relation (workspace, source_id, target_id);
CREATE INDEX heliograph_relation_by_target ON heliograph_relation (workspace, target_id, source_id);

-- The key of every name and alias, and the pieces by which it is found in the middle.
CREATE TABLE heliograph_entity_name (
  workspace text COLLATE "C", id text COLLATE "C", name text COLLATE "C", pieces tsvector NOT NULL,
  PRIMARY KEY (workspace, id, name)
);
CREATE INDEX heliograph_entity_name_by_beginning ON heliograph_entity_name (workspace, name);
CREATE INDEX heliograph_entity_name_by_piece ON heliograph_entity_name USING gin (pieces);

-- `terms` are the terms in order, each between spaces of its own; `lexemes` the same as a set, for the index.
CREATE TABLE heliograph_chunks_terms (
  workspace text COLLATE "C", id text COLLATE "C", lexemes tsvector NOT NULL, terms text COLLATE "C" NOT NULL,
  length integer NOT NULL, PRIMARY KEY (workspace, id)
);
CREATE INDEX heliograph_chunks_terms_index ON heliograph_chunks_terms USING gin (lexemes);
CREATE TABLE heliograph_entities_terms (
  workspace text COLLATE "C", id text COLLATE "C", lexemes tsvector NOT NULL, terms text COLLATE "C" NOT NULL,
  length integer NOT NULL, PRIMARY KEY (workspace, id)
);
CREATE INDEX heliograph_entities_terms_index ON heliograph_entities_terms USING gin (lexemes);
-- In how many rows a term occurs, and how many rows and terms there are: what BM25 needs.
CREATE TABLE heliograph_term (
  workspace text COLLATE "C", collection text COLLATE "C", term text COLLATE "C", rows bigint NOT NULL,
  PRIMARY KEY (workspace, collection, term)
) WITH (fillfactor = 70);
CREATE TABLE heliograph_text_size (
  workspace text COLLATE "C", collection text COLLATE "C", rows bigint NOT NULL, terms bigint NOT NULL,
  PRIMARY KEY (workspace, collection)
) WITH (fillfactor = 50);

CREATE TABLE heliograph_curation (
  workspace text COLLATE "C", sequence bigint GENERATED BY DEFAULT AS IDENTITY, id text COLLATE "C",
  kind text NOT NULL, content text NOT NULL, author text NOT NULL, created_at timestamptz NOT NULL,
  undone_by text NOT NULL, undone_at timestamptz, PRIMARY KEY (workspace, id)
);
CREATE UNIQUE INDEX heliograph_curation_by_sequence ON heliograph_curation (workspace, sequence);
CREATE TABLE heliograph_curation_subject (
  workspace text COLLATE "C", entity_id text COLLATE "C", sequence bigint,
  PRIMARY KEY (workspace, entity_id, sequence)
);
CREATE TABLE heliograph_name_rules (
  workspace text COLLATE "C", id text COLLATE "C", names text NOT NULL, aliases text NOT NULL, version bigint NOT NULL,
  PRIMARY KEY (workspace, id)
);

CREATE TABLE heliograph_outbox (
  workspace text COLLATE "C", kind text COLLATE "C", id text COLLATE "C", version bigint NOT NULL,
  PRIMARY KEY (workspace, kind, id)
);
CREATE INDEX heliograph_outbox_by_version ON heliograph_outbox (workspace, version);
CREATE TABLE heliograph_outbox_reader (
  workspace text COLLATE "C", name text COLLATE "C", version bigint NOT NULL, PRIMARY KEY (workspace, name)
);

CREATE TABLE heliograph_reply (
  workspace text COLLATE "C", key text COLLATE "C", cache_type text COLLATE "C" NOT NULL, text bytea NOT NULL,
  model text NOT NULL, input_tokens bigint NOT NULL, output_tokens bigint NOT NULL,
  subject_id text COLLATE "C" NOT NULL, created_at timestamptz NOT NULL, PRIMARY KEY (workspace, key)
);
CREATE INDEX heliograph_reply_by_type ON heliograph_reply (workspace, cache_type);
CREATE INDEX heliograph_reply_by_subject ON heliograph_reply (workspace, subject_id) WHERE subject_id <> '';
"""

# Roles of workspaces whose truth is in another store: their cursors, and the embedding that made their vectors. Such a
# workspace has no row in `heliograph_workspace`.
_PROJECTIONS = """
CREATE TABLE heliograph_projection (
  workspace text COLLATE "C", role text COLLATE "C", version bigint NOT NULL,
  embedding_name text NOT NULL, embedding_dimension integer NOT NULL, PRIMARY KEY (workspace, role)
);
"""

# Distinguishes a workspace from one that is later created under its name.
_MADE = "ALTER TABLE heliograph_workspace ADD COLUMN IF NOT EXISTS made bigint GENERATED ALWAYS AS IDENTITY"

# Where and how often each term occurs; replaces the number of rows per term: a query no longer reads rows of terms.
_POSTINGS = """
ALTER TABLE heliograph_chunks_terms ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE heliograph_entities_terms ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX heliograph_chunks_terms_by_number ON heliograph_chunks_terms (workspace, number);
CREATE UNIQUE INDEX heliograph_entities_terms_by_number ON heliograph_entities_terms (workspace, number);
-- A record is number << 32 | count << 20 | length of the row; `first` is the least number that a row may hold.
CREATE TABLE heliograph_posting (
  workspace text COLLATE "C", collection text COLLATE "C", term text COLLATE "C", first bigint,
  records bigint[] NOT NULL, PRIMARY KEY (workspace, collection, term, first)
) WITH (fillfactor = 70);
INSERT INTO heliograph_posting (workspace, collection, term, first, records)
SELECT workspace, collection, term, min(number), array_agg(record ORDER BY number) FROM (
  SELECT *, (row_number() OVER (PARTITION BY workspace, collection, term ORDER BY number) - 1) / 200 AS segment
  FROM (
    SELECT workspace, collection, number, term,
      (number << 32) | (least(count(*), 4095) << 20) | least(length, 1048575) AS record
    FROM (SELECT workspace, 'chunks' AS collection, number, terms, length FROM heliograph_chunks_terms
      UNION ALL SELECT workspace, 'entities', number, terms, length FROM heliograph_entities_terms) AS rows
    CROSS JOIN unnest(string_to_array(btrim(terms), '  ')) AS term
    GROUP BY workspace, collection, number, length, term) AS counted) AS placed
GROUP BY workspace, collection, term, segment;
DROP TABLE heliograph_term;
"""

# The embedded texts of the next embedding's vectors, stored beside these once they are in use.
_NEXT_CONTENTS = "ALTER TABLE heliograph_next_vector ADD COLUMN content text"

# The column of a declared field is created by its declaration: `added` of `DOCUMENTS` and the like (`stores/sql.py`).
MIGRATIONS = (
    *(_CREATE, _PROJECTIONS, _MADE, _POSTINGS, _NEXT_CONTENTS),
    CHUNKS.added("lightrag_chunks", "columns"),
)

LATEST_VERSION = len(MIGRATIONS)

# All tables with contents of a workspace: not its own row, nor its followers and readers of its outbox.
TABLES = (
    "heliograph_document",
    "heliograph_document_text",
    "lightrag_chunks",
    "lightrag_entities",
    "lightrag_relationships",
    "heliograph_next_vector",
    "heliograph_extraction",
    "heliograph_entity_mention",
    "heliograph_relation_mention",
    "heliograph_alias_mention",
    "heliograph_entity_evidence",
    "heliograph_relation_evidence",
    "heliograph_entity",
    "heliograph_degree",
    "heliograph_relation",
    "heliograph_entity_name",
    "heliograph_chunks_terms",
    "heliograph_entities_terms",
    "heliograph_posting",
    "heliograph_text_size",
    "heliograph_curation",
    "heliograph_curation_subject",
    "heliograph_name_rules",
    "heliograph_outbox",
    "heliograph_reply",
)


async def migrate(session: Session, label: str) -> None:
    """Bring a database to the latest schema; a current one is not written to.

    Any number of processes may do so at once: they wait for one another.

    Raises:
        SchemaMismatch: A newer version made it, it is not in UTF-8, or pgvector is too old.
    """
    if await _version(session) != LATEST_VERSION:
        await session.run(Statement("BEGIN"), Statement("SELECT pg_advisory_xact_lock(%s::bigint)", (_LOCK_KEY,)))
        await session.execute_script("CREATE EXTENSION IF NOT EXISTS vector")
        query = "CREATE TABLE IF NOT EXISTS heliograph_migration (number integer PRIMARY KEY, applied_at timestamptz)"
        await session.execute_script(query)
        # Another process may have migrated while this one waited.
        version = await _version(session)
        if version > LATEST_VERSION:
            raise SchemaMismatch(
                f"the store {label!r} has schema {version}, this version of Heliograph knows {LATEST_VERSION}; "
                "upgrade Heliograph (pip install -U heliograph) or use another database"
            )
        for number in range(version, LATEST_VERSION):
            await session.execute_script(MIGRATIONS[number])
            await session.execute_script(f"INSERT INTO heliograph_migration VALUES ({number + 1}, now())")
        await session.commit()
    query = "SELECT extversion, current_setting('server_encoding') FROM pg_extension WHERE extname = 'vector'"
    ((installed, encoding),) = await session.fetch(query)
    if tuple(int(part) for part in installed.split(".")[:2]) < _OLDEST_PGVECTOR:
        raise SchemaMismatch(
            f"the store {label!r} has pgvector {installed}, 0.8 or newer is needed; install it on the server and "
            "ALTER EXTENSION vector UPDATE"
        )
    if encoding != "UTF8":
        raise SchemaMismatch(f"the database {label!r} is in {encoding}, not UTF-8; make one with ENCODING 'UTF8'")


async def _version(session: Session) -> int:
    if await session.fetch_value("SELECT to_regclass('heliograph_migration')") is None:
        return 0
    return int(await session.fetch_value("SELECT coalesce(max(number), 0) FROM heliograph_migration"))
