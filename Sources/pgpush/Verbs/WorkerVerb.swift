// worker: reads the options, checks what can be checked before anything is claimed, and hands over to the pipeline.

import PushStore

extension Verb {
    static let worker = Verb(
        name: "worker", summary: "sends what is due, until SIGTERM, or with --once until nothing is due",
        options: [.once, .pollInterval, .batchSize, .lanes, .connections, .grace, .schema],
        examples: [
            Example("pgpush worker", "runs until SIGTERM")
        ]
    ) { call in .done }
}

extension Option {
    static let once = Option("once", "send what is due now and exit, for cron; what must be retried later is left")
    static let pollInterval = Option(
        "poll-interval", value: "SECONDS", "longest time between two looks at the queue (60)")
    static let batchSize = Option("batch-size", value: "N", "devices in one batch (500)")
    static let lanes = Option("lanes", value: "N", "threads that send (one for each processor, at most 8)")
    static let connections = Option("connections", value: "N", "HTTP/2 connections to each host, 1 to 16 (4)")
    static let grace = Option("grace", value: "SECONDS", "how long requests may take to finish after SIGTERM (25)")
}
