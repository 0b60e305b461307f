-- One per instance: the journal keeps what is older.
WITH v (instance_id, turn_no, body) AS (VALUES (?, ?, ?))
INSERT INTO snapshots (instance_id, turn_no, body)
SELECT instance_id, turn_no, body FROM v WHERE instance_id IS NOT NULL
ON CONFLICT (instance_id) DO UPDATE SET turn_no = excluded.turn_no, body = excluded.body
