-- A row of another instance is not this turn's to delete.
WITH v (seq, instance_id) AS (VALUES (?, ?))
DELETE FROM inbox
WHERE seq IN (
  SELECT m.seq FROM v CROSS JOIN inbox m ON m.seq = v.seq AND m.instance_id = v.instance_id
)
