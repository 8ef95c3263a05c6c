// The simulator's journal as values, and its counts.

import Foundation

/// One request as the simulator saw it.
package struct SimulatedRequest: Decodable, Sendable {
    /// Nanoseconds of CLOCK_BOOTTIME at its end and at its arrival, and nanoseconds since 1970 at its end.
    package let mono, received, wall: UInt64
    package let connection: Int
    package let environment: String
    package let stream: Int32
    /// Which request for its device token it was, from 1.
    package let attempt: Int
    package let token: String?
    package let apnsId: String?
    package let method, path: String
    /// The `apns-` headers.
    package let headers: [String: String]
    /// Tells provider tokens apart.
    package let authorization: String?
    /// What Apple would accept and then may not deliver.
    package let warnings: [String]?
    package let bodyLength: Int
    package let body: String?
    package let bodySha256: String?
    /// `answered`, or `reset`, `refused`, `cut off`, `abandoned`, `lost`; nil for a request that is held.
    package let outcome: String?
    package let status: Int?
    package let reason: String?
    /// The `apns-id` of the answer.
    package let answerId: String?
    /// The `apns-request-id` of an answer about channels, and the channel that was made.
    package let answerRequestId, answerChannelId: String?
    /// The HTTP/2 error code of a stream without an answer.
    package let code: UInt32?

    /// Whether it was answered with 200.
    package var isAccepted: Bool { status == 200 }
}

/// Something that happened to a connection.
package struct SimulatedConnectionEvent: Decodable, Sendable {
    /// `opened`, `closed` or `goaway`.
    package let event: String
    package let mono, wall: UInt64
    package let connection: Int
    package let environment: String
    /// Of an opened connection: the fingerprint of the certificate that the sender showed.
    package let certificate: String?
    package let requests: Int?
    package let cause: String?
    package let lastStream: Int32?
    package let code: UInt32?
    package let debug: String?
}

/// The journal at one point in time.
package struct SimulatorJournal: Sendable {
    /// Requests that have ended, in the order of their ends.
    package private(set) var requests: [SimulatedRequest] = []
    /// Requests that had to wait; each ends in `requests` too, in time.
    package private(set) var held: [SimulatedRequest] = []
    /// What happened to connections.
    package private(set) var connections: [SimulatedConnectionEvent] = []
    /// The control commands that were carried out.
    package private(set) var commands: [String] = []

    static var decoder: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }

    private struct Kind: Decodable {
        let event: String
        let command: String?
    }

    /// Reads a journal file; a last line that is not complete is left out.
    package init(contentsOf path: String) throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: path))
        let decoder = SimulatorJournal.decoder
        guard let end = data.lastIndex(of: 0x0A) else { return }
        for line in data[...end].split(separator: 0x0A) { try take(Data(line), decoder) }
    }

    private mutating func take(_ line: Data, _ decoder: JSONDecoder) throws {
        let kind = try decoder.decode(Kind.self, from: line)
        switch kind.event {
        case "request": requests.append(try decoder.decode(SimulatedRequest.self, from: line))
        case "held": held.append(try decoder.decode(SimulatedRequest.self, from: line))
        case "control": commands.append(kind.command ?? "")
        default: connections.append(try decoder.decode(SimulatedConnectionEvent.self, from: line))
        }
    }

    /// The accepted requests.
    package var accepted: [SimulatedRequest] { requests.filter(\.isAccepted) }
    /// The device tokens of the accepted requests, sorted, doubles included.
    package var acceptedTokens: [String] { accepted.compactMap(\.token).sorted() }
    /// The requests for one device token, in the order of their ends.
    package func requests(for token: String) -> [SimulatedRequest] { requests.filter { $0.token == token } }
}

/// What a simulator has counted.
package struct SimulatorCounts: Decodable, Sendable {
    package let requests, answered, accepted, unanswered: Int
    /// Device tokens that were accepted at least once, and more than once.
    package let distinctAccepted, repeatedAccepted: Int
    /// Some of those that were accepted more than once.
    package let repeatedExamples: [String]
    /// Requests with warnings.
    package let warned: Int
    /// TCP connections that were accepted; connections whose handshake was completed, and that have ended.
    package let knocks, opened, closed: Int
    package let outcomes: [Outcome]

    /// How often one kind of answer was given.
    package struct Outcome: Decodable, Sendable {
        package let environment: String
        package let status: Int
        package let reason: String
        package let count: Int
    }

    /// How often this answer was given, in both environments.
    package func count(_ status: Int, _ reason: String = "") -> Int {
        outcomes.filter { $0.status == status && $0.reason == reason }.reduce(0) { $0 + $1.count }
    }
}
