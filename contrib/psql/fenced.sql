-- A job whose writes are fenced, in psql:
--
--   STINT_FENCE="$DATABASE_URL" stint run billing -- sh -c 'psql "$DATABASE_URL" -f fenced.sql'
--
-- With STINT_FENCE (or --fence) stint raises first, and ends the session of a
-- predecessor that froze inside its transaction; a raise in SQL would wait for it.
-- stint gives STINT_NAME and STINT_GRANT to what it runs. The functions come from
-- `stint migrate postgres://...`. A refusal ends psql with exit code 3.
\set ON_ERROR_STOP on
\getenv name STINT_NAME
\getenv grant STINT_GRANT

-- The first act, before any read: from here on an older holder is refused.
SELECT previous_fence, previous_state FROM stint_raise(:'name', :'grant');

BEGIN;
SELECT stint_admit(:'name', :'grant'); -- the check is the first statement
INSERT INTO invoices (chunk, amount)
  SELECT chunk, i FROM generate_series((SELECT count(DISTINCT chunk) FROM invoices), 3) AS chunk, generate_series(1, 100) AS i;
SELECT stint_finish(:'name', :'grant'); -- DONE, with the last write
COMMIT;
