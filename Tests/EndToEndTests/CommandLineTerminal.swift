// What depends on where the output goes: watch on a terminal and elsewhere, questions, pipes, full disks, interrupts.

import Foundation
import TestSupport
import Testing

@Suite("pgpush on terminals and pipes") struct CommandLineTerminal {
    private let database: TestDatabase
    private let pgpush: CommandLineRunner
    private let token = String(repeating: "ab", count: 32)

    init() throws { (database, pgpush) = try migratedDatabase() }

    @Test func watchEndsWithTheNotification() throws {
        try pgpush.output("enqueue", "--user", "1", "--body", "x", "--at", "+1h")
        let watching = try pgpush.start("watch", "1")
        #expect(watching.hasWritten("pending  due in "))
        #expect(watching.output.contains("due in 1:00:00") || watching.output.contains("due in 59:"))
        try pgpush.output("cancel", "1")
        #expect(watching.exitCode() == 1)
        #expect(watching.output.hasSuffix("cancelled\n"))
        #expect(!watching.output.contains("\u{1B}") && !watching.output.contains("\r"))
        let json = try pgpush.run("watch", "1", "--json")
        #expect(json.status == 1)
        #expect(try CommandLineRunner.objects(json.output).map { $0["status"] as? String } == ["cancelled"])
        #expect(try pgpush.run("watch", "99").status == 3)
    }

    @Test func watchCountsUpToSent() throws {
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token) SELECT '1', lpad(to_hex(n), 64, '0') FROM generate_series(1, 4) n;
            INSERT INTO scheduled_notifications (user_id, body) VALUES ('1', 'x');
            """)
        let owner = UUID().uuidString
        try database.psql("SELECT claim_notifications('\(owner)', '{default}', '{1 day}', 10, 500, '75 s')")
        let watching = try pgpush.start("watch", "1")
        #expect(watching.hasWritten("sending"))
        try database.psql(
            """
            SELECT settle('\(owner)', '{1}', '{0}', '{1}', '{t}', '{0}', '{3}', '{1}', '{0}', '{0}', '{NULL}',
                          l_unit => '{1}', l_device => '{4}', l_token => '{00}', l_environment => '{production}',
                          l_status => '{400}', l_reason => '{BadTopic}', l_final => '{t}', l_age_ms => '{0}')
            """)
        #expect(watching.exitCode() == 0)
        #expect(watching.output.contains("sent  100 %  4 of 4  1 rejected  3 accepted"))
    }

    @Test func interruptIs130() throws {
        try pgpush.output("enqueue", "--user", "1", "--body", "x", "--at", "+1h")
        let watching = try pgpush.start("watch", "1")
        #expect(watching.hasWritten("pending"))
        watching.send(SIGINT)
        #expect(watching.exitCode() == 130)
    }

    /// The live line, on a terminal made by script(1).
    @Test func progressBarOnATerminal() throws {
        try pgpush.output("enqueue", "--user", "1", "--body", "x", "--at", "+1h")
        let terminal = pgpush.with(["TERM": "xterm"])
        let watching = try RunningCommand(
            "/usr/bin/script", ["-qefc", "\(CommandLineRunner.executable) watch 1", "/dev/null"],
            terminal.environment.merging(["PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"]) { $1 })
        #expect(watching.hasWritten("\rpending  due in "))
        #expect(watching.hasWritten("\u{1B}[K"))
        try pgpush.output("cancel", "1")
        #expect(watching.exitCode() == 1)
        #expect(watching.output.contains("\u{1B}[33mcancelled\u{1B}[0m"))
        // NO_COLOR keeps the line but not its paint.
        let plain = try Subprocess.run(
            "/usr/bin/script", ["-qefc", "\(CommandLineRunner.executable) watch 1", "/dev/null"],
            environment: terminal.environment.merging(["PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "NO_COLOR": "1"]) {
                $1
            })
        #expect(plain.output.contains("\rcancelled") && !plain.output.contains("\u{1B}[33m"))
    }

    /// Before a broadcast somebody at a terminal is asked; without one, or with --yes, nobody is.
    @Test func broadcastAsksOnATerminal() throws {
        try pgpush.output("devices", "register", "-u", "1", "-t", token)
        let variables = pgpush.with(["TERM": "xterm", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"]).environment
        func answer(_ text: String, _ options: String = "") throws -> CommandResult {
            let command = "\(CommandLineRunner.executable) enqueue --broadcast --body x \(options)"
            return try Subprocess.run(
                "/usr/bin/script", ["-qefc", command, "/dev/null"], environment: variables, input: text)
        }
        let no = try answer("n\n")
        #expect(no.status == 1, "\(no)")
        #expect(
            no.output.contains("This goes to 1 device. Store it? [y/N]") && no.output.contains("nothing was stored"))
        #expect(try database.number("SELECT count(*) FROM scheduled_notifications") == 0)
        #expect(try answer("y\n").status == 0)
        #expect(try answer("", "--yes").status == 0)
        #expect(try database.number("SELECT count(*) FROM scheduled_notifications") == 2)
    }

    // MARK: Pipes

    @Test func readerThatLeavesEndsItQuietly() throws {
        try database.psql(
            "INSERT INTO scheduled_notifications (user_id, body) SELECT '1', repeat('x', 200) FROM generate_series(1, 3000)"
        )
        let result = try Subprocess.run(
            "/bin/sh", ["-c", "\(CommandLineRunner.executable) list -n 3000 | head -n 1"],
            environment: pgpush.environment)
        #expect(result.status == 0)
        #expect(result.output.contains("scheduled at"))
        #expect(result.errors.isEmpty)
    }

    @Test func fullDiskIsAFailure() throws {
        try pgpush.output("enqueue", "--user", "1", "--body", "x")
        let result = try Subprocess.run(
            "/bin/sh", ["-c", "\(CommandLineRunner.executable) list > /dev/full"], environment: pgpush.environment)
        #expect(result.status == 1)
        #expect(result.errors.contains("cannot write"))
    }
}
