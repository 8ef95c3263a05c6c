// The keys under which this module logs.

import Telemetry

extension LogKey {
    static let peer = LogKey("http2.peer")
    static let connection = LogKey("http2.connection")
    static let fault = LogKey("http2.fault")
    static let answers = LogKey("http2.answers")
    static let streams = LogKey("http2.streams")
    static let unknownStreams = LogKey("http2.streams.unknown")
}
