-- Turns of which every fact has been read.
WITH v (id, turn_no, at, body) AS (VALUES (?, ?, ?, ?))
INSERT INTO journal (instance_id, turn_no, at, body)
SELECT id, turn_no, at, body FROM v WHERE id IS NOT NULL
