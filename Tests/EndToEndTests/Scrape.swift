// What curl gets from a worker's PGPUSH_HTTP, as values.

import Foundation
import TestSupport

/// The pages of one worker.
struct Pages: Sendable {
    private let base: String
    private let worker: WorkerProcess

    /// Starts a worker that serves its pages, and waits until it does.
    static func worker(
        _ rig: Rig, _ options: String..., more: [String: String] = [:]
    ) async throws -> (worker: WorkerProcess, pages: Pages) {
        let environment = rig.environment.merging(more) { $1 }.merging(["PGPUSH_HTTP": "127.0.0.1:0"]) { $1 }
        let worker = try WorkerProcess(options, environment: environment)
        do {
            try await worker.logs("metrics and health are served")
            return (worker, try Pages(worker))
        } catch {
            await worker.kill()
            throw error
        }
    }

    private init(_ worker: WorkerProcess) throws {
        self.worker = worker
        guard let address = worker.log.firstMatch(of: /http\.address="?([0-9.]+:[0-9]+)/)?.output.1 else {
            throw worker.failure("does not say where it serves its pages")
        }
        base = "http://\(address)"
    }

    /// Status and body of a page.
    func get(_ path: String) throws -> (status: Int, body: String) {
        let answer = try Subprocess.run(
            "/usr/bin/curl", ["-s", "-S", "-m", "60", "-w", "\n%{http_code}", base + path])
        guard answer.status == 0, let end = answer.output.lastIndex(of: "\n"),
            let status = Int(answer.output[answer.output.index(after: end)...])
        else { throw worker.failure("does not answer \(path): \(answer.output)\(answer.errors)") }
        return (status, String(answer.output[..<end]))
    }

    /// The metrics at this moment.
    func scrape() throws -> Scrape { Scrape(try get("/metrics").body) }

    /// Waits until the metrics are as wanted; returns them.
    ///
    /// - Throws: `WorkerFailure` with the last ones when they are not within the limit.
    @discardableResult
    func eventually(within limit: Duration = .seconds(90), _ isMet: (Scrape) throws -> Bool) async throws -> Scrape {
        let deadline = ContinuousClock.now + limit
        while true {
            let scrape = try scrape()
            if try isMet(scrape) { return scrape }
            guard ContinuousClock.now < deadline else { throw worker.failure("never shows it:\n\(scrape.text)") }
            // There is nothing to wait on but the page itself.
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Waits until /readyz answers with this status and a body with all these words.
    func readiness(_ status: Int, _ words: String..., within limit: Duration = .seconds(90)) async throws {
        let deadline = ContinuousClock.now + limit
        while true {
            let page = try get("/readyz")
            if page.status == status, words.allSatisfy(page.body.contains) { return }
            guard ContinuousClock.now < deadline else { throw worker.failure("/readyz says \(page)") }
            try await Task.sleep(for: .milliseconds(100))
        }
    }
}

/// Metrics at one moment.
struct Scrape {
    let text: String
    /// By the whole text of a series, labels included.
    private var values: [String: Double] = [:]

    init(_ text: String) {
        self.text = text
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " ") else { continue }
            values[String(line[..<space])] = Double(line[line.index(after: space)...])
        }
    }

    /// The value of a series; nil without it.
    subscript(_ series: String) -> Double? { values[series] }

    /// The sum of all series of a metric with these labels (`app="shop"`); nil when there are none.
    func sum(_ name: String, _ labels: String...) -> Double? {
        let found = values.filter { key, _ in
            (key == name || key.hasPrefix(name + "{")) && labels.allSatisfy(key.contains)
        }
        return found.isEmpty ? nil : found.values.reduce(0, +)
    }

    /// The series of a metric, with their labels.
    func series(_ name: String) -> [String: Double] { values.filter { $0.key.hasPrefix(name + "{") } }

    /// The names of all metrics, as their TYPE lines have them.
    var names: Set<String> {
        Set(text.split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }.map { String($0.split(separator: " ")[2]) })
    }
}
