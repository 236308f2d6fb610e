-- The fence for every language that speaks SQL. Each procedure belongs into the
-- transaction of the write that it guards, before the first read. Refusals have
-- an SQLSTATE of their own:
--   SF001 stale token      SF002 repeated token   SF003 no fence row
--   SF004 fence not raised SF005 no admitted grant SF006 bad name or grant
CREATE OR REPLACE PROCEDURE {f}_grant(IN p_name LONGTEXT CHARACTER SET utf8mb4, IN p_grant LONGTEXT CHARACTER SET utf8mb4, OUT o_token BIGINT, OUT o_nonce VARCHAR(64) CHARACTER SET ascii)
NO SQL SQL SECURITY INVOKER
BEGIN
  IF p_name IS NULL OR LENGTH(p_name) NOT BETWEEN 1 AND 1024 OR p_name RLIKE '[\\x{0000}-\\x{001F}\\x{007F}-\\x{009F}]' THEN
    SIGNAL SQLSTATE 'SF006' SET MESSAGE_TEXT = 'fence: this is no name: 1 to 1024 bytes without control characters';
  END IF;
  IF p_grant IS NULL OR p_grant NOT RLIKE '^[1-9][0-9]{0,15}[.][A-Za-z0-9_-]{1,64}\\z' OR CAST(SUBSTRING_INDEX(p_grant, '.', 1) AS UNSIGNED) > 9007199254740991 THEN
    SIGNAL SQLSTATE 'SF006' SET MESSAGE_TEXT = 'fence: this grant is not of the form token.nonce, as in 12.k3f9';
  END IF;
  SET o_token = CAST(SUBSTRING_INDEX(p_grant, '.', 1) AS SIGNED);
  SET o_nonce = SUBSTRING_INDEX(p_grant, '.', -1);
END;

-- {f}_refuse says why a grant is not admitted.
CREATE OR REPLACE PROCEDURE {f}_refuse(IN p_name LONGTEXT CHARACTER SET utf8mb4, IN p_token BIGINT, IN p_top BIGINT, IN p_admitted VARCHAR(64) CHARACTER SET ascii)
NO SQL SQL SECURITY INVOKER
BEGIN
  DECLARE what TEXT CHARACTER SET utf8mb4 DEFAULT CONCAT('fence ', QUOTE(LEFT(p_name, 60)));
  IF COALESCE(p_top, 0) = 0 THEN
    SET what = CONCAT(what, ': no fence row in table {t}: nobody raised it here, or it was pruned. Nothing was written');
    SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = what;
  ELSEIF p_top > p_token THEN
    SET what = CONCAT(what, ': token ', p_token, ' is lower than the fence ', p_top, ': this holder has lost its lease. Nothing was written; stop');
    SIGNAL SQLSTATE 'SF001' SET MESSAGE_TEXT = what;
  ELSEIF p_top = p_token AND p_admitted <> '' THEN
    SET what = CONCAT(what, ': token ', p_token, ' was already admitted for another grant. Was the authority restored without a bump? Nothing was written');
    SIGNAL SQLSTATE 'SF002' SET MESSAGE_TEXT = what;
  END IF;
  SET what = CONCAT(what, ': not raised for token ', p_token, ': it stands at ', p_top, '. Nothing was written');
  SIGNAL SQLSTATE 'SF004' SET MESSAGE_TEXT = what;
END;

-- {f}_raise admits a new holder: its first act, before any read. It gives the
-- row as the last holder left it; previous_fence is 0 where there was none.
CREATE OR REPLACE PROCEDURE {f}_raise(IN p_name LONGTEXT CHARACTER SET utf8mb4, IN p_grant LONGTEXT CHARACTER SET utf8mb4)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_token, v_fence, v_owner, v_since, v_seq, v_floor BIGINT DEFAULT 0;
  DECLARE v_nonce, g_nonce VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_prev VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin;
  CALL {f}_grant(p_name, p_grant, v_token, g_nonce);
  {make}
  SELECT [fence], [nonce], [state], [owner], [since], [seq], [prev] INTO v_fence, v_nonce, v_state, v_owner, v_since, v_seq, v_prev
    FROM {t} WHERE [name] = p_name FOR UPDATE;
  IF v_nonce IS NULL THEN
    CALL {f}_refuse(p_name, v_token, NULL, NULL);
  END IF;
  IF v_fence = 0 THEN
    SELECT MAX(CASE WHEN k = 'floor' THEN v ELSE 0 END), GREATEST(v_seq, MAX(CASE WHEN k = 'seq' THEN v ELSE 0 END)) INTO v_floor, v_seq FROM {m};
    IF v_token <= v_floor THEN
      CALL {f}_refuse(p_name, v_token, v_floor + 1, '');
    END IF;
  ELSEIF v_fence > v_token OR v_fence = v_token AND v_nonce <> '' AND v_nonce <> g_nonce THEN
    CALL {f}_refuse(p_name, v_token, v_fence, v_nonce);
  END IF;
  IF v_fence = v_token AND v_nonce <> '' THEN
    UPDATE {t} SET [since] = CASE WHEN [state] = 'RUNNING' THEN [since] ELSE {now} END, [state] = 'RUNNING', [touched] = {now}, [admits] = [admits] + 1 WHERE [name] = p_name;
  ELSE
    SET v_prev = CONCAT('{"fence":', v_fence, ',"nonce":"', v_nonce, '","state":"', v_state, '","owner":', v_owner, ',"since":', v_since, ',"seq":', v_seq, '}');
    UPDATE {t} SET [fence] = v_token, [nonce] = g_nonce, [owner] = v_token, [state] = 'RUNNING', [since] = {now}, [touched] = {now},
      [prev] = v_prev, [seq] = v_seq, [admits] = [admits] + 1 WHERE [name] = p_name;
  END IF;
  SET @stint_grants = CONCAT(v_token, '.', g_nonce);
  SELECT CAST(JSON_VALUE(v_prev, '$.fence') AS SIGNED) AS previous_fence, COALESCE(JSON_VALUE(v_prev, '$.nonce'), '') AS previous_nonce,
    COALESCE(JSON_VALUE(v_prev, '$.state'), '') AS previous_state, CAST(COALESCE(JSON_VALUE(v_prev, '$.owner'), 0) AS SIGNED) AS previous_owner,
    FROM_UNIXTIME(NULLIF(JSON_VALUE(v_prev, '$.since'), 0) / 1000) AS previous_since, CAST(COALESCE(JSON_VALUE(v_prev, '$.seq'), 0) AS SIGNED) AS previous_seq;
END;

-- {f}_admit is the check of a write: the first statement of its transaction.
CREATE OR REPLACE PROCEDURE {f}_admit(IN p_name LONGTEXT CHARACTER SET utf8mb4, IN p_grant LONGTEXT CHARACTER SET utf8mb4)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_token, v_fence BIGINT;
  DECLARE v_nonce, g_nonce VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  CALL {f}_grant(p_name, p_grant, v_token, g_nonce);
  UPDATE {t} SET [admits] = [admits] + 1, [session] = CONNECTION_ID() WHERE [name] = p_name AND [fence] = v_token AND [nonce] = g_nonce;
  IF ROW_COUNT() <> 1 THEN
    SELECT [fence], [nonce] INTO v_fence, v_nonce FROM {t} WHERE [name] = p_name FOR UPDATE;
    CALL {f}_refuse(p_name, v_token, v_fence, v_nonce);
  END IF;
  SET @stint_grants = SUBSTRING_INDEX(CONCAT_WS(',', @stint_grants, CONCAT(v_token, '.', g_nonce)), ',', -8);
END;

-- {f}_finish sets DONE, most usefully in the transaction of the last write.
CREATE OR REPLACE PROCEDURE {f}_finish(IN p_name LONGTEXT CHARACTER SET utf8mb4, IN p_grant LONGTEXT CHARACTER SET utf8mb4)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_token, v_fence BIGINT;
  DECLARE v_nonce, g_nonce VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  CALL {f}_grant(p_name, p_grant, v_token, g_nonce);
  UPDATE {t} SET [state] = 'DONE', [touched] = {now}, [admits] = [admits] + 1, [session] = CONNECTION_ID() WHERE [name] = p_name AND [fence] = v_token AND [nonce] = g_nonce;
  IF ROW_COUNT() <> 1 THEN
    SELECT [fence], [nonce] INTO v_fence, v_nonce FROM {t} WHERE [name] = p_name FOR UPDATE;
    CALL {f}_refuse(p_name, v_token, v_fence, v_nonce);
  END IF;
END;

-- {f}_protect is called by the triggers of a protected table. The session must
-- have presented a grant ({f}_raise, {f}_admit, InTx), and it must be the fence
-- now, under a lock that lasts until the transaction ends.
CREATE OR REPLACE PROCEDURE {f}_protect(IN p_name LONGTEXT CHARACTER SET utf8mb4)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE n INT;
  SELECT COUNT(*) INTO n FROM {t} WHERE [name] = p_name AND [nonce] <> '' AND [state] <> 'QUEUED'
    AND FIND_IN_SET(CONCAT([fence], '.', [nonce]), @stint_grants) LOCK IN SHARE MODE;
  IF n <> 1 THEN
    SIGNAL SQLSTATE 'SF005' SET MESSAGE_TEXT = 'this table is protected by a fence, and this transaction was not admitted: nothing was written. Begin it with CALL {f}_admit(name, grant), or use InTx';
  END IF;
END;
