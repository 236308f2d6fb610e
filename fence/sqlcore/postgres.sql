-- The fence for every language that speaks SQL. Each function belongs into the
-- transaction of the write that it guards, before the first read. Refusals have
-- an SQLSTATE of their own:
--   SF001 stale token      SF002 repeated token   SF003 no fence row
--   SF004 fence not raised SF005 no admitted grant SF006 bad name or grant
CREATE OR REPLACE FUNCTION {f}_grant(p_name text, p_grant text, OUT token bigint, OUT nonce text)
LANGUAGE plpgsql IMMUTABLE AS $stint$
BEGIN
  IF p_name IS NULL OR octet_length(p_name) NOT BETWEEN 1 AND 1024 OR p_name ~ '[\u0001-\u001F\u007F-\u009F]' THEN
    RAISE EXCEPTION 'fence: the name % is no name: 1 to 1024 bytes without control characters', quote_nullable(left(p_name, 60)) USING ERRCODE = 'SF006';
  END IF;
  IF p_grant IS NULL OR p_grant !~ '^[1-9][0-9]{0,15}\.[A-Za-z0-9_-]{1,64}$' OR split_part(p_grant, '.', 1)::bigint > 9007199254740991 THEN
    RAISE EXCEPTION 'fence: grant % is not of the form token.nonce, as in 12.k3f9', quote_nullable(left(p_grant, 90)) USING ERRCODE = 'SF006';
  END IF;
  token := split_part(p_grant, '.', 1)::bigint;
  nonce := split_part(p_grant, '.', 2);
END $stint$;

-- {f}_raise admits a new holder: its first act, before any read. It returns the
-- row as the last holder left it; previous_fence is 0 where there was none.
CREATE OR REPLACE FUNCTION {f}_raise(p_name text, p_grant text, OUT previous_fence bigint, OUT previous_nonce text,
  OUT previous_state text, OUT previous_owner bigint, OUT previous_since timestamptz, OUT previous_seq bigint)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $stint$
DECLARE
  g record;
  r record;
  floor bigint := 0;
  j json;
BEGIN
  g := {f}_grant(p_name, p_grant);
  LOOP
    SELECT [fence] AS fence, [nonce] AS nonce, [state] AS state, [owner] AS owner, [since] AS since, [seq] AS seq, [prev] AS prev
      INTO r FROM {t} WHERE [name] = p_name FOR UPDATE;
    EXIT WHEN FOUND;
    {make}
  END LOOP;
  IF r.fence = 0 THEN
    SELECT v INTO floor FROM {m} WHERE k = 'floor';
    SELECT greatest(v, r.seq) INTO r.seq FROM {m} WHERE k = 'seq';
  END IF;
  IF greatest(r.fence, CASE WHEN r.fence = 0 THEN floor + 1 ELSE 0 END) > g.token THEN
    RAISE EXCEPTION 'fence %: a new holder came with token %, but the store has already admitted %: nothing was written', quote_literal(p_name), g.token, greatest(r.fence, floor)
      USING ERRCODE = 'SF001', HINT = 'Either this holder was paused before its first act and a later one took over, or the authority is behind the store (restored without a bump?).';
  ELSIF r.fence = g.token AND r.nonce <> '' AND r.nonce <> g.nonce THEN
    RAISE EXCEPTION 'fence %: token % was already admitted for another grant: nothing was written', quote_literal(p_name), g.token
      USING ERRCODE = 'SF002', HINT = 'Was the authority restored without a bump?';
  ELSIF r.fence = g.token AND r.nonce <> '' THEN
    j := r.prev::json;
    UPDATE {t} SET [since] = CASE WHEN [state] = 'RUNNING' THEN [since] ELSE {now} END, [state] = 'RUNNING', [touched] = {now}, [admits] = [admits] + 1 WHERE [name] = p_name;
  ELSE
    j := json_build_object('fence', r.fence, 'nonce', r.nonce, 'state', r.state, 'owner', r.owner, 'since', r.since, 'seq', r.seq);
    UPDATE {t} SET [fence] = g.token, [nonce] = g.nonce, [owner] = g.token, [state] = 'RUNNING', [since] = {now}, [touched] = {now},
      [prev] = j::text, [seq] = r.seq, [admits] = [admits] + 1 WHERE [name] = p_name;
  END IF;
  previous_fence := (j->>'fence')::bigint;
  previous_nonce := coalesce(j->>'nonce', '');
  previous_state := coalesce(j->>'state', '');
  previous_owner := coalesce((j->>'owner')::bigint, 0);
  previous_since := to_timestamp(nullif((j->>'since')::bigint, 0) / 1000.0);
  previous_seq := coalesce((j->>'seq')::bigint, 0);
END $stint$;

CREATE OR REPLACE FUNCTION {f}_refuse(p_name text, p_token bigint, p_nonce text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $stint$
DECLARE
  top bigint;
  admitted text;
BEGIN
  SELECT [fence], [nonce] INTO top, admitted FROM {t} WHERE [name] = p_name AND [fence] > 0;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'fence %: no fence row in table {t}: nobody raised it here, or it was pruned. Nothing was written', quote_literal(p_name) USING ERRCODE = 'SF003';
  ELSIF top > p_token THEN
    RAISE EXCEPTION 'fence %: token % is lower than the fence %: this holder has lost its lease. Nothing was written', quote_literal(p_name), p_token, top
      USING ERRCODE = 'SF001', HINT = 'Stop, and discard what is in memory.';
  ELSIF top = p_token AND admitted <> '' THEN
    RAISE EXCEPTION 'fence %: token % was already admitted for another grant. Nothing was written', quote_literal(p_name), p_token
      USING ERRCODE = 'SF002', HINT = 'Was the authority restored without a bump?';
  END IF;
  RAISE EXCEPTION 'fence %: not raised for token %: it stands at %. Nothing was written', quote_literal(p_name), p_token, top
    USING ERRCODE = 'SF004', HINT = 'A holder raises the fence before its first write.';
END $stint$;

-- {f}_admit is the check of a write: the first statement of its transaction.
CREATE OR REPLACE FUNCTION {f}_admit(p_name text, p_grant text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $stint$
DECLARE
  g record;
BEGIN
  g := {f}_grant(p_name, p_grant);
  UPDATE {t} SET [admits] = [admits] + 1 WHERE [name] = p_name AND [fence] = g.token AND [nonce] = g.nonce;
  IF NOT FOUND THEN
    PERFORM {f}_refuse(p_name, g.token, g.nonce);
  END IF;
END $stint$;

-- {f}_finish sets DONE, most usefully in the transaction of the last write.
CREATE OR REPLACE FUNCTION {f}_finish(p_name text, p_grant text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $stint$
DECLARE
  g record;
BEGIN
  g := {f}_grant(p_name, p_grant);
  UPDATE {t} SET [state] = 'DONE', [touched] = {now}, [admits] = [admits] + 1 WHERE [name] = p_name AND [fence] = g.token AND [nonce] = g.nonce;
  IF NOT FOUND THEN
    PERFORM {f}_refuse(p_name, g.token, g.nonce);
  END IF;
END $stint$;

-- {f}_protect is the trigger of a protected table: this very transaction must
-- have admitted a grant of the fence. It has, if it wrote the fence's row: the
-- row that it sees was then made by a transaction that is still in progress.
CREATE OR REPLACE FUNCTION {f}_protect() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $stint$
DECLARE
  v_now bigint := pg_current_xact_id()::text::bigint;
  v_made bigint;
  v_fence text;
  v_fences text[] := ARRAY[TG_ARGV[0]];
BEGIN
  IF TG_LEVEL = 'ROW' AND TG_OP = 'INSERT' THEN
    v_fences := ARRAY[to_jsonb(NEW) ->> TG_ARGV[1]];
  ELSIF TG_LEVEL = 'ROW' THEN
    v_fences := ARRAY[to_jsonb(OLD) ->> TG_ARGV[1]];
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) ->> TG_ARGV[1] IS DISTINCT FROM v_fences[1] THEN -- from one fence to another: both
      v_fences := array_append(v_fences, to_jsonb(NEW) ->> TG_ARGV[1]);
    END IF;
  END IF;
  FOREACH v_fence IN ARRAY v_fences LOOP
    v_made := NULL;
    SELECT xmin::text::bigint INTO v_made FROM {t} WHERE [name] = v_fence AND [nonce] <> '' AND [state] <> 'QUEUED';
    v_made := ((v_now >> 32) << 32) + v_made; -- of the same count as v_now
    IF v_made > v_now + 2147483648 THEN
      v_made := v_made - 4294967296;
    ELSIF v_made < v_now - 2147483648 THEN
      v_made := v_made + 4294967296;
    END IF;
    IF v_made IS NULL OR v_made < v_now OR pg_xact_status(v_made::text::xid8) <> 'in progress' THEN
      RAISE EXCEPTION 'table % is protected by the fence %, and this transaction was not admitted: nothing was written', TG_TABLE_NAME, quote_nullable(v_fence)
        USING ERRCODE = 'SF005', HINT = 'Begin the transaction with SELECT {f}_admit(name, grant), or use InTx.';
    END IF;
  END LOOP;
  IF TG_LEVEL = 'STATEMENT' THEN
    RETURN NULL;
  ELSIF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $stint$;
