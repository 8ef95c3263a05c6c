// All that a worker tells about itself at /metrics, in one place; `deploy/README.md` explains it to operators, and a test holds the
// two against each other. No label ever holds a token, a user or a notification: apps and gateways come from the configuration,
// reasons from a list (`ReasonLabel`).

import Telemetry

extension CounterMetric {
    /// Labels: app, environment, outcome, status, reason.
    static let pushes = CounterMetric(
        "pgpush_pushes_total",
        help: "Pushes whose outcome is written down: accepted, rejected, unknown, or retried (tried again later).")
    /// Labels: result.
    static let wireResults = CounterMetric(
        "pgpush_wire_results_total",
        help: "Ends of requests as they come, before anything is written down.")
    static let claimedUnits = CounterMetric(
        "pgpush_claimed_units_total", help: "Units of work (notifications, slices of broadcasts) that were claimed.")
    static let fencedUnits = CounterMetric(
        "pgpush_fenced_units_total", help: "Units that somebody else had taken over when they were written back.")
    static let lostLeases = CounterMetric(
        "pgpush_lost_leases_total", help: "Leases that were lost while a unit was being sent.")
    /// Labels: code, sqlstate.
    static let databaseErrors = CounterMetric(
        "pgpush_database_errors_total", help: "Calls to the database that failed, by kind and SQLSTATE.")
    /// Labels: gateway, credential; so for all that begin with pgpush_gateway.
    static let connectAttempts = CounterMetric(
        "pgpush_gateway_connect_attempts_total", help: "Attempts to open a connection.")
    static let connectFailures = CounterMetric(
        "pgpush_gateway_connect_failures_total", help: "Attempts to open a connection that failed.")
    static let lostConnections = CounterMetric(
        "pgpush_gateway_lost_connections_total", help: "Connections that broke without a farewell.")
    static let pingTimeouts = CounterMetric(
        "pgpush_gateway_ping_timeouts_total", help: "Connections that were given up because a PING was not answered.")
    static let deadlines = CounterMetric(
        "pgpush_gateway_deadlines_total", help: "Requests whose deadline passed, sent or not.")
    /// Labels: gateway, credential, reason.
    static let goAways = CounterMetric(
        "pgpush_gateway_goaways_total", help: "Connections that the gateway closed with a GOAWAY, by its reason.")
    /// Labels: credential.
    static let tokensMade = CounterMetric(
        "pgpush_provider_tokens_made_total", help: "Provider tokens that were signed.")
}

extension GaugeMetric {
    /// Labels: app; so for all that begin with pgpush_queue, which every worker says alike.
    static let due = GaugeMetric(
        "pgpush_queue_due_notifications",
        help: "Notifications in the database that are due and pending, counted up to 100000.", merge: .maximum)
    static let oldestDue = GaugeMetric(
        "pgpush_queue_oldest_due_seconds",
        help: "Age of the oldest notification that is due and pending; 0 without one.", merge: .maximum)
    static let sending = GaugeMetric(
        "pgpush_queue_sending_notifications", help: "Notifications that are being sent, by whatever worker.",
        merge: .maximum)
    /// Labels: app, state.
    static let batches = GaugeMetric(
        "pgpush_queue_batches", help: "Open batches: ready, leased, or parked until their scope is sent to again.",
        merge: .maximum)
    static let oldestReady = GaugeMetric(
        "pgpush_queue_oldest_ready_batch_seconds",
        help: "How long the oldest ready batch could have been claimed; 0 without one.", merge: .maximum)
    static let liveWorkers = GaugeMetric(
        "pgpush_queue_live_workers", help: "Workers that serve the app and gave a sign of life within three minutes.",
        merge: .maximum)
    /// Labels: app, environment, by, reason.
    static let pausedScopes = GaugeMetric(
        "pgpush_paused_scopes", help: "Scopes (app, environment or topic) that are not sent to, and why.")

    static let leases = GaugeMetric("pgpush_leases", help: "Units that this worker holds under a lease.")
    static let devicesInWork = GaugeMetric(
        "pgpush_devices_in_work",
        help: "Devices that this worker answers for: waiting, on the wire, or to be written back.")
    static let writeBlocked = GaugeMetric(
        "pgpush_write_back_blocked",
        help: "1 while the database refuses to take results and somebody has to mend it.", merge: .maximum)

    /// Labels: gateway, credential, state.
    static let connections = GaugeMetric(
        "pgpush_gateway_connections", help: "Connections: connecting, open, or draining (taking no more requests).")
    static let streams = GaugeMetric("pgpush_gateway_streams", help: "Requests that are on a stream.")
    static let streamLimit = GaugeMetric(
        "pgpush_gateway_stream_limit", help: "Streams that the open connections may have at present.")
    static let queued = GaugeMetric("pgpush_gateway_queued_requests", help: "Requests that wait for a stream.")
    /// Labels: app, environment.
    static let gatewayBlocked = GaugeMetric(
        "pgpush_gateway_blocked", help: "1 while nothing is sent to a gateway because it fails or is out of reach.",
        merge: .maximum)

    /// Labels: credential.
    static let tokenAge = GaugeMetric(
        "pgpush_provider_token_age_seconds",
        help: "Age of the provider token; it is renewed by the first push after 45 minutes.", merge: .minimum)
    /// Labels: app, environment, credential.
    static let certificateExpiry = GaugeMetric(
        "pgpush_certificate_expiry_timestamp_seconds",
        help: "End of the validity of a client certificate, in seconds since 1970.", merge: .minimum)

    static let databaseUp = GaugeMetric(
        "pgpush_database_up", help: "1 while the database answers this worker.", merge: .minimum)
    /// Labels: loop.
    static let loopStalled = GaugeMetric(
        "pgpush_loop_stalled_seconds", help: "How long a thread of the worker has not turned.", merge: .maximum)
    /// Labels: version.
    static let build = GaugeMetric("pgpush_build_info", help: "1, with the version.", merge: .maximum)
}

extension HistogramMetric {
    /// Labels: app.
    static let lag = HistogramMetric(
        "pgpush_delivery_lag_seconds",
        help: "From the due time of a unit of work to the last acceptance of it, for units of which any was accepted.",
        bounds: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400])
}
