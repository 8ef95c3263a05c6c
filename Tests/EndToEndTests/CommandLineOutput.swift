// What is written: tables, JSON, progress, failures, numbers.

import PushStore
import Testing

@testable import pgpush

private let plain = Style(isColoured: false)
private let coloured = Style(isColoured: true)

@Suite("Command line output") struct CommandLineOutput {
    private let columns = [
        ReportColumn("id", .number), ReportColumn("status", .status), ReportColumn("title", .long), ReportColumn("app"),
    ]

    @Test func tablesAlign() {
        let lines = Table.lines(
            columns, [["1", "sent", "Tea", "default"], ["12345", "pending", nil, "b"]], width: nil, style: plain)
        #expect(
            lines == [
                "   id  status   title  app",
                "    1  sent     Tea    default",
                "12345  pending  -      b",
            ])
    }

    @Test func tablesFitTheTerminal() {
        let rows = [["1", "sent", String(repeating: "long ", count: 40), "default"] as [String?]]
        let lines = Table.lines(columns, rows, width: 60, style: plain)
        #expect(lines.allSatisfy { DisplayText.width($0) <= 60 })
        #expect(lines[1].contains("…") && lines[1].hasSuffix("default"))
        #expect(Table.lines(columns, rows, width: nil, style: plain)[1].contains(String(repeating: "long ", count: 40)))
    }

    @Test func wideCharactersKeepTheColumns() {
        let lines = Table.lines(
            columns, [["1", "sent", "日本語", "x"], ["2", "sent", "e\u{301}te\u{301}", "x"], ["3", "sent", "👩‍👩‍👧", "x"]],
            width: nil, style: plain)
        #expect(Set(lines.dropFirst().map { DisplayText.width($0) }).count == 1)
        #expect(DisplayText.width("日本語") == 6)
        #expect(DisplayText.width("e\u{301}te\u{301}") == 3)
        #expect(DisplayText.width("👩‍👩‍👧") == 2)
    }

    /// A title may not repaint the screen of whoever lists it.
    @Test func controlCharactersDoNotReachTheTerminal() {
        let hostile = "\u{1B}[2Jgone\u{7}\u{9B}31m\u{202E}evil\nnext"
        let line = Table.lines(columns, [["1", "sent", hostile, "x"]], width: nil, style: plain)[1]
        #expect(
            line.unicodeScalars.allSatisfy {
                $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) && $0.value != 0x202E
            })
        #expect(line.contains("\\u{1b}[2Jgone"))
    }

    @Test func coloursOnlyWhereWanted() {
        #expect(plain.paint("x", .red) == "x")
        #expect(coloured.paint("x", .red) == "\u{1B}[31mx\u{1B}[0m")
        let line = Table.lines(columns, [["1", "sent", "a", "b"]], width: nil, style: coloured)[1]
        #expect(line == " 1  \u{1B}[32msent\u{1B}[0m    a      b")
        #expect(Style.ink(ofStatus: "pending") == nil)
    }

    @Test func json() {
        let value = JSON.object([
            ("a", .string("\"\\\n\u{1}\u{9B}é日")), ("n", .null), ("i", .integer(.min)), ("d", .number(.infinity)),
            ("l", .array([.bool(true), .raw("{\"x\":1}")])),
        ])
        #expect(
            value.line
                == "{\"a\":\"\\\"\\\\\\n\\u0001\\u009bé日\",\"n\":null,\"i\":-9223372036854775808,\"d\":null,\"l\":[true,{\"x\":1}]}"
        )
    }

    @Test func failures() {
        let failure = CommandFailure(
            .failed, "payload: too\nlarge", detail: "4097 bytes", hint: "shorten it", sqlState: "PN005")
        #expect(
            failure.lines(command: "pgpush enqueue", style: plain) == [
                "pgpush enqueue: error: payload: too large (SQLSTATE PN005)", "  detail: 4097 bytes",
                "  hint: shorten it",
            ])
    }

    @Test func numbers() {
        #expect(Numbers.grouped(0) == "0")
        #expect(Numbers.grouped(999) == "999")
        #expect(Numbers.grouped(1_234_567) == "1,234,567")
        #expect(Numbers.grouped(-1_000) == "-1,000")
        #expect(Numbers.grouped(.min) == "-9,223,372,036,854,775,808")
        #expect(Numbers.rate(0.04) == "0.0")
        #expect(Numbers.rate(9.94) == "9.9")
        #expect(Numbers.rate(9.96) == "10")
        #expect(Numbers.rate(41_234.4) == "41,234")
        #expect(Numbers.rate(.nan) == "-")
        #expect(Numbers.span(3.2) == "0:04")
        #expect(Numbers.span(3_905) == "1:05:05")
        #expect(Numbers.span(183_600) == "2d 03:00")
        #expect(Numbers.span(.infinity) == "-")
    }
}

@Suite("Progress of a notification") struct CommandLineProgress {
    private let half = ProgressSnapshot(
        status: "sending", total: 10_000, accepted: 5_000, rejected: 12, unknown: 0, rate: 1_247, dueIn: nil)

    @Test func fullWidth() {
        #expect(
            ProgressBar.line(half, width: 140, style: plain)
                == "sending  ━━━━━━━━━━━━━━━━━━━━────────────────────  50 %  5,012 of 10,000  12 rejected  0:04 left  1,247/s  "
                + "5,000 accepted")
    }

    @Test func halfSteps() {
        var snapshot = half
        snapshot.accepted = 5_113
        #expect(
            ProgressBar.line(snapshot, width: 140, style: plain).contains(
                "━━━━━━━━━━━━━━━━━━━━╸───────────────────  51 %"))
    }

    @Test(arguments: [0, 1, 5, 10, 20, 30, 40, 60, 80, 100, 120, 200])
    func neverWiderThanTheTerminal(_ width: Int) {
        for status in ["sending", "cancelling"] {
            var snapshot = half
            snapshot.status = status
            #expect(DisplayText.width(ProgressBar.line(snapshot, width: width, style: plain)) <= max(0, width - 1))
        }
    }

    @Test func whatMattersLeastGoesFirst() {
        let line = ProgressBar.line(half, width: 42, style: plain)
        #expect(line.hasPrefix("sending  50 %  5,012 of 10,000"))
        #expect(!line.contains("/s"))
    }

    @Test func unknownTotalAndWaiting() {
        #expect(ProgressBar.sentence(ProgressSnapshot(status: "sending", accepted: 3)) == "sending  3  3 accepted")
        #expect(ProgressBar.sentence(ProgressSnapshot(status: "pending", dueIn: 3_600)) == "pending  due in 1:00:00")
        #expect(ProgressBar.sentence(ProgressSnapshot(status: "pending")) == "pending  due, waiting for a worker")
        #expect(ProgressBar.sentence(ProgressSnapshot(status: "cancelled")) == "cancelled")
        #expect(ProgressSnapshot(status: "sent", total: 0).share == nil)
        // Estimates of the audience may be low: never more than all.
        #expect(ProgressSnapshot(status: "sending", total: 10, accepted: 20).share == 1)
    }

    @Test func rates() throws {
        var meter = RateMeter()
        meter.add(0, at: 10)
        #expect(meter.rate == nil)
        meter.add(500, at: 10.5)
        #expect(meter.rate == 1_000)
        meter.add(500, at: 10.5)
        #expect(meter.rate == 1_000)
        for step in 1...100 { meter.add(500 + Int64(step) * 1_000, at: 10.5 + Double(step) * 0.5) }
        let rate = try #require(meter.rate)
        #expect(abs(rate - 2_000) < 20)
        // A unit that is taken back lowers the count; the rate does not turn negative.
        meter.add(0, at: 100)
        #expect(try #require(meter.rate) >= 0)
    }
}
