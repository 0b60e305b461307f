WITH v (instance_id, turn_no, at, body) AS (VALUES (?, ?, ?, ?))
INSERT INTO journal (instance_id, turn_no, at, body)
SELECT instance_id, turn_no, at, body FROM v WHERE instance_id IS NOT NULL
