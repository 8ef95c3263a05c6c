// What must stand in no log, and a search for it that also finds pieces.

import Foundation
import Glibc
import TestSupport

/// Texts that a run knows and nobody else may read.
struct Confidential {
    private var entries: [(what: String, text: String)] = []

    /// Adds a text; of a long one every piece of 24 characters is looked for, of a short one the whole.
    mutating func add(_ what: String, _ text: String) { entries.append((what, text)) }

    /// The credentials that a worker gets from a simulator: the key's lines, and its body on one line.
    mutating func add(credentialsOf simulator: SimulatorProcess) throws {
        let path = simulator.environment["APNS_KEY_PATH"] ?? ""
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        add("the key", lines.filter { !$0.hasPrefix("-") }.joined())
    }

    /// What of it a text holds, each named once; provider tokens are known by their form.
    func found(in text: String) -> [String] {
        var found = text.withCString { start in
            entries.filter { entry in pieces(entry.text).contains { strstr(start, $0) != nil } }.map(\.what)
        }
        if text.contains(/eyJ[A-Za-z0-9_-]{8}/) || text.lowercased().contains("bearer ") {
            found.append("a provider token")
        }
        return found
    }

    /// Pieces of 16 at every eighth place: whoever writes 24 in a row writes one of them.
    private func pieces(_ text: String) -> [String] {
        let text = Array(text)
        guard text.count >= 32 else { return [String(text)] }
        return stride(from: 0, through: text.count - 16, by: 8).map { String(text[$0..<$0 + 16]) }
    }
}
