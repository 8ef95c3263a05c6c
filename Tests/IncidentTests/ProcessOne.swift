// F34: the worker as process 1 of a container, with and without a shell around it. No image is shipped; what the documentation tells
// people to put into theirs is read from there and run.

import Foundation
import TestSupport
import Testing

@Suite("As process 1") struct ProcessOne {
    private static let weather = ["--first-limit", "10", "--stream-limit", "10", "--latency-ms", "1000"]

    /// 200 due rows, a worker in a namespace of its own, and ten pushes on the wire.
    private func start(_ rig: Rig, shell: String?) async throws -> (worker: WorkerProcess, first: pid_t) {
        try rig.addDevices(1...200)
        try rig.addSingles(1...200)
        let worker = try rig.worker("--grace", "10", "--connections", "1", within: Namespace.command(shell: shell))
        try await rig.simulator.wait(for: .accepted, atLeast: 10)
        try await rig.simulator.wait(for: .held, atLeast: 10)
        return (worker, try Namespace.first(of: worker))
    }

    @Test(
        "F34: a worker, started directly or by exec from sh -c, hears SIGTERM, ends within the grace time and releases its claims",
        arguments: [nil, #"exec "$@""#])
    func hearsTheSignal(shell: String?) async throws {
        try await Rig.run(simulator: Self.weather) { rig in
            let (worker, first) = try await start(rig, shell: shell)
            kill(first, SIGTERM)
            #expect(try await worker.exitCode() == 0)
            #expect(worker.log.contains("stopping") && !worker.log.contains("process 1 is a shell"))
            #expect(try rig.database.number("SELECT count(*) FROM pgpush_workers") == 0)
            let counts = try await rig.simulator.counts()
            #expect(counts.requests == counts.accepted && counts.accepted < 200)
            let states = try rig.psql(
                "SELECT status, lease_until IS NULL, count(*) FROM scheduled_notifications GROUP BY 1, 2 ORDER BY 1")
            let (sent, left) = ("\(counts.accepted)", "\(200 - counts.accepted)")
            #expect(states == [["pending", "t", left], ["sent", "t", sent]])
        }
    }

    @Test(
        "F34: behind a shell that stays process 1 the signal is lost: the worker says so at its start, and its leases are short"
    )
    func behindAShell() async throws {
        try await Rig.run(simulator: Self.weather) { rig in
            let (worker, first) = try await start(rig, shell: #""$@"; exit $?"#)
            kill(first, SIGTERM)
            let sent = try await rig.simulator.counts().accepted
            // It does not hear it, and goes on.
            try await rig.simulator.wait(for: .accepted, atLeast: sent + 10)
            #expect(!worker.log.contains("stopping") && worker.log.contains("process 1 is a shell"))
            // What a supervisor does when its patience ends; nobody survives process 1.
            kill(first, SIGKILL)
            _ = try await worker.exitCode()
            let leased =
                "SELECT count(*), count(*) FILTER (WHERE lease_until > now() + interval '76 s') FROM scheduled_notifications WHERE status = 'sending'"
            let row = try #require(try rig.psql(leased).first)
            #expect(row[0] != "0" && row[1] == "0", "F22 and F33 show how these are taken over")
        }
    }

    @Test("F34: every start that the documentation and the files of deploy/ show is in the exec form, and works")
    func documentedForms() async throws {
        let folder = URL(fileURLWithPath: SchemaFiles.folder).deletingLastPathComponent().appendingPathComponent(
            "deploy")
        var commands: [[String]] = []
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let text = try String(contentsOfFile: folder.appendingPathComponent(name).path, encoding: .utf8)
            for match in text.matches(of: /\b(?:CMD|ENTRYPOINT) +(\S[^`\n]*)/) {
                let form = String(match.1.prefix(through: match.1.lastIndex(of: "]") ?? match.1.startIndex))
                let words = try? JSONDecoder().decode([String].self, from: Data(form.utf8))
                commands.append(try #require(words, "\(name): \(match.0)"))
            }
            for match in text.matches(of: /ExecStart= *(\S+)/) {
                #expect(!match.1.hasSuffix("sh") && !match.1.hasSuffix("env"), "\(name): \(match.0)")
            }
        }
        #expect(!commands.isEmpty)
        try await Rig.run { rig in
            for words in commands {
                #expect(words == ["pgpush", "worker"])
                let worker = try rig.worker(within: Namespace.command())
                try await worker.hasStarted()
                kill(try Namespace.first(of: worker), SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }
    }
}
