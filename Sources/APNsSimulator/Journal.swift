// The journal: what the simulator saw, one JSON object a line, for tests and people to read while it runs.
//
//     {"event":"opened", …}     a connection          {"event":"held", …}      a request that waits for its answer
//     {"event":"closed", …}     its end               {"event":"request", …}   a request's end, answered or not
//     {"event":"goaway", …}     sent by us            {"event":"control", …}   a control command was carried out
//
// Whoever sees an answer finds it here: lines are written to the file before the answer is given to the connection.
// One write a turn of the loop; a failure to write is told once and ends the journal, not the simulator.

import Glibc
package import Reactor
import TLS

/// How a body appears in the journal.
package enum JournalBodyForm: String, Sendable, CaseIterable {
    /// As text (`body`), or as base64 (`body_base64`) when it is not UTF-8.
    case full
    /// As its SHA-256 (`body_sha256`).
    case hash
    /// Only its length.
    case none
}

/// Where a request came in, and when.
package struct Arrival: Sendable {
    package let connection: Int
    package let stream: Int32
    package let environment: SimulatedEnvironment
    package let received: MonotonicTime
}

/// A request that has been looked at.
package struct JudgedRequest: Sendable {
    package let arrival: Arrival
    package let request: IncomingRequest
    package let ruling: Ruling
    /// The `apns-id` of the answer.
    package let answerID: String
    /// The `apns-request-id` of the answer; nil where channels are no matter.
    package var requestID: String?
}

/// The writer of the journal; lives on the loop of its simulator.
package final class Journal {
    private let descriptor: Int32
    private let bodies: JournalBodyForm
    private var lines = JSONLine()
    private var fingerprints: [String: String] = [:]
    private var lastBody: (bytes: [UInt8], json: [UInt8]) = ([], [])
    private var hasFailed = false
    private let complain: (String) -> Void

    /// Opens the journal for appending; without a path it keeps nothing.
    package init(path: String?, bodies: JournalBodyForm, complain: @escaping (String) -> Void) throws(SimulatorError) {
        self.bodies = bodies
        self.complain = complain
        guard let path else {
            descriptor = -1
            return
        }
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system("the journal \(path) cannot be opened", errno) }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Whether lines are kept at all.
    package var isOpen: Bool { descriptor >= 0 && !hasFailed }

    // MARK: Events

    /// Notes a connection, and the fingerprint of the certificate that its sender showed.
    package func noteOpened(_ connection: Int, _ environment: SimulatedEnvironment, certificate: String?) {
        write("opened") {
            $0.addConnection(connection, environment)
            $0.add("certificate", certificate)
        }
    }

    /// Notes the end of a connection and how many requests it had.
    package func noteClosed(_ connection: Int, _ environment: SimulatedEnvironment, requests: Int, cause: String) {
        write("closed") {
            $0.addConnection(connection, environment)
            $0.add("requests", requests)
            $0.add("cause", cause)
        }
    }

    /// Notes a GOAWAY that we send.
    package func noteGoAway(
        _ connection: Int, _ environment: SimulatedEnvironment, lastStream: Int32?, code: UInt32, debug: String
    ) {
        write("goaway") {
            $0.addConnection(connection, environment)
            if let lastStream { $0.add("last_stream", lastStream) }
            $0.add("code", code)
            $0.add("debug", debug)
        }
    }

    /// Notes that a control command was carried out.
    package func noteControl(_ command: String) { write("control") { $0.add("command", command) } }

    /// Notes a request that will be answered later or never.
    package func noteHeld(_ judged: JudgedRequest) {
        write("held") { line in self.describe(judged, &line) }
    }

    /// Notes the end of a request.
    ///
    /// - Parameters:
    ///   - judged: the request.
    ///   - outcome: `answered`, or how it ended without an answer.
    ///   - answer: the answer, when there is one.
    ///   - code: the HTTP/2 error code of a stream that ended without an answer.
    package func noteEnd(_ judged: JudgedRequest, outcome: String, answer: Answer? = nil, code: UInt32? = nil) {
        write("request") { line in
            self.describe(judged, &line)
            line.add("outcome", outcome)
            if let answer {
                line.add("status", answer.status)
                line.add("reason", answer.rejection?.reason ?? "")
                line.add("answer_id", judged.answerID)
                line.add("answer_request_id", judged.requestID)
                if case .created(let id)? = answer.channel { line.add("answer_channel_id", id) }
            }
            if let code { line.add("code", code) }
        }
    }

    private func describe(_ judged: JudgedRequest, _ line: inout JSONLine) {
        let request = judged.request
        line.addConnection(judged.arrival.connection, judged.arrival.environment)
        line.add("stream", judged.arrival.stream)
        line.add("received", judged.arrival.received.nanoseconds)
        line.add("attempt", judged.ruling.attempt)
        line.add("token", request.deviceToken)
        line.add("apns_id", request.apnsID)
        line.add("method", request.method)
        line.add("path", request.path)
        line.beginObject("headers")
        for (name, value) in request.apnsFields { line.add(name: name, value) }
        line.endObject()
        line.add("authorization", fingerprint(request.authorization))
        line.add("warnings", judged.ruling.warnings)
        line.add("body_length", request.body.count)
        add(body: request.body, &line)
    }

    // MARK: Bodies and fingerprints

    private func add(body: [UInt8], _ line: inout JSONLine) {
        if bodies == .none || body.isEmpty { return }
        if !sameBytes(body, lastBody.bytes) || lastBody.json.isEmpty { lastBody = (body, describe(body)) }
        line.add(member: lastBody.json)
    }

    /// The member that describes a body.
    private func describe(_ body: [UInt8]) -> [UInt8] {
        if bodies == .hash { return Array("\"body_sha256\":\"\(sha256(body))\"".utf8) }
        guard let text = String(validating: body, as: UTF8.self) else {
            return Array("\"body_base64\":\"\(Base64.encode(body))\"".utf8)
        }
        return Array("\"body\":".utf8) + JSONLine.encode(text)
    }

    /// Tells provider tokens apart without keeping them: the first 16 digits of their SHA-256.
    private func fingerprint(_ authorization: String?) -> String? {
        guard let authorization else { return nil }
        if let known = fingerprints[authorization] { return known }
        if fingerprints.count >= 4096 { fingerprints.removeAll() }
        let fingerprint = String(sha256(Array(authorization.utf8)).prefix(16))
        fingerprints[authorization] = fingerprint
        return fingerprint
    }

    private func sha256(_ bytes: [UInt8]) -> String {
        // OpenSSL fails here only without memory; the journal then shows that it does not know.
        guard let digest = try? SHA256.digest(bytes) else { return "unknown" }
        return digest.map { $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16) }.joined()
    }

    // MARK: Writing

    private func write(_ event: String, _ fill: (inout JSONLine) -> Void) {
        guard isOpen else { return }
        lines.begin()
        lines.add("event", event)
        lines.add("mono", MonotonicTime.now().nanoseconds)
        lines.add("wall", wallNanoseconds())
        fill(&lines)
        lines.end()
        if lines.count > 4 << 20 { flush() }
    }

    /// Gives all lines to the system; called before the answers of a turn leave.
    package func flush() {
        guard isOpen, lines.count > 0 else { return }
        var sent = 0
        while sent < lines.count, !hasFailed {
            let written = unsafe lines.bytes.withUnsafeBytes { bytes in
                unsafe Glibc.write(descriptor, bytes.baseAddress?.advanced(by: sent), bytes.count - sent)
            }
            if written > 0 { sent += written } else if errno != EINTR { fail(errno) }
        }
        lines.removeAll()
    }

    private func fail(_ code: Int32) {
        hasFailed = true
        complain("the journal cannot be written and ends here: \(SimulatorError.text(of: code))")
    }
}

extension JSONLine {
    fileprivate mutating func addConnection(_ connection: Int, _ environment: SimulatedEnvironment) {
        add("connection", connection)
        add("environment", environment.rawValue)
    }
}
