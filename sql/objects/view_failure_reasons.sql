-- What Apple refused in the last day, and why.

CREATE OR REPLACE VIEW failure_reasons AS
SELECT f.app, f.environment, f.http_status, f.reason,
       count(*) FILTER (WHERE f.is_final) AS final_count, count(*) FILTER (WHERE NOT f.is_final) AS retried_count,
       count(DISTINCT f.notification_id) AS notification_count, max(f.occurred_at) AS last_at
FROM delivery_failures f
WHERE f.occurred_at > now() - interval '1 day'
GROUP BY 1, 2, 3, 4
ORDER BY 1, 5 DESC, 6 DESC;
COMMENT ON VIEW failure_reasons IS
    'The answers of the last day that were not 200, by app, environment and reason. http_status null: no answer came.';
COMMENT ON COLUMN failure_reasons.final_count IS 'Devices whose final outcome this was.';
COMMENT ON COLUMN failure_reasons.retried_count IS 'Answers after which the device was tried again.';
