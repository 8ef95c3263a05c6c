// worker: reads the options, checks whatever can be checked before anything is claimed, and hands over to the pipeline.
//
//     options ──► credentials ──► trust ──► database (60 s) ──► schema ──► pipeline
//        2            4             4           4 or 5             4

import CLinux
import PushStore
import Reactor
import Telemetry

extension Verb {
    static let worker = Verb(
        name: "worker", summary: "sends what is due, until SIGTERM, or with --once until nothing is due",
        details: """
            On SIGTERM or SIGINT nothing more is claimed, what is on the wire may finish within the grace time, the rest is
            handed back; a second signal stops at once. Credentials, database and schema are checked at start (exit code 4;
            5 when no database can be reached for 60 s); a worker that runs outlives a database that goes away.
            With --once, exit code 6 says that Apple's service could not be reached, or fails, and something is still due.
            Serves the app 'default' that the APNS_* variables describe, or the apps of the file that PGPUSH_CONFIG names.
            Logs go to standard error (PGPUSH_LOG_LEVEL, PGPUSH_LOG_FORMAT). PGPUSH_HTTP=127.0.0.1:9464 serves /metrics (Prometheus),
            /healthz (do the threads turn) and /readyz (are database and credentials good); not with --once.
            """,
        options: [.once, .pollInterval, .batchSize, .lanes, .connections, .grace, .schema],
        examples: [
            Example("pgpush worker", "runs until SIGTERM"),
            Example("pgpush worker --once", "from cron: sends what is due and exits"),
            Example(
                "PGPUSH_LOG_FORMAT=json pgpush worker --lanes 4 --connections 8", "a big machine, logs for a collector"),
        ]
    ) { call in
        // Before any thread is started, so that no thread takes them in the old way.
        SignalWatch.block([SIGTERM, SIGINT, SIGHUP])
        let plan = try WorkerPlan(call)
        let admin = try plan.openAdmin()
        defer { admin?.stop() }
        let facts = try plan.checkDatabase()
        plan.warn(facts)
        return try plan.run(facts, metrics: admin?.metrics)
    }
}

extension Option {
    static let once = Option("once", "send what is due now and exit, for cron; what must be retried later is left")
    static let pollInterval = Option(
        "poll-interval", value: "SECONDS", "longest time between two looks at the queue (60)")
    static let batchSize = Option("batch-size", value: "N", "devices in one batch (500)")
    static let lanes = Option(
        "lanes", value: "N",
        "threads that send, each over a connection of its own at least (half the processors, 1 to 4)")
    static let connections = Option(
        "connections", value: "N",
        "HTTP/2 connections to each host, 1 to 16, shared out among the lanes (4, or one a lane)")
    static let grace = Option("grace", value: "SECONDS", "how long requests may take to finish after SIGTERM (25)")
}
