-- Only the turns after the newest snapshot, so that the age of an instance does not matter.
WITH v (id) AS (VALUES (?))
SELECT j.turn_no, j.at, j.body, j.instance_id
FROM v
CROSS JOIN journal j
  ON j.instance_id = v.id
  AND j.turn_no > coalesce((SELECT s.turn_no FROM snapshots s WHERE s.instance_id = v.id), -1)
WHERE v.id IS NOT NULL
