// The proxy that the other suites trust: what it forwards, holds back, refuses and breaks.

import Glibc
import Testing

@testable import TestSupport

@Suite("The TCP proxy") struct ProxyTests {
    /// A client and the server it reaches through a proxy.
    private struct Wire {
        let listener: Int32
        let proxy: TCPProxy

        init() throws {
            listener = try LocalSocket.bound(listens: true, blocks: true)
            proxy = try TCPProxy(to: LocalSocket.port(of: listener))
        }

        func close() {
            proxy.close()
            Glibc.close(listener)
        }

        /// A new connection through the proxy; both its ends.
        func pair() throws -> (client: Int32, server: Int32) {
            let client = try #require(LocalSocket.connected(to: proxy.port))
            return (client, try #require(LocalSocket.accepted(on: listener)))
        }
    }

    private func say(_ text: String, _ descriptor: Int32) {
        #expect(send(descriptor, text, text.utf8.count, Int32(MSG_NOSIGNAL)) == text.utf8.count)
    }

    /// What comes within the limit: a text, `<end>`, `<reset>` or `<nothing>`.
    private func hear(_ descriptor: Int32, within milliseconds: Int32 = 20_000) -> String {
        var watched = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&watched, 1, milliseconds) > 0 else { return "<nothing>" }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        if count == 0 { return "<end>" }
        return count < 0
            ? (errno == ECONNRESET ? "<reset>" : "<errno \(errno)>") : String(decoding: bytes[..<count], as: UTF8.self)
    }

    @Test("forwards both ways, much at a time, and the end of each side by itself")
    func forward() throws {
        let wire = try Wire()
        defer { wire.close() }
        let (client, server) = try wire.pair()
        say("ping", client)
        #expect(hear(server) == "ping")
        say("pong", server)
        #expect(hear(client) == "pong")
        shutdown(client, Int32(SHUT_WR))
        #expect(hear(server) == "<end>")
        let much = String(repeating: "x", count: 60_000)
        say(much, server)
        var seen = ""
        while seen.count < much.count { seen += hear(client) }
        #expect(seen == much)
        close(server)
        #expect(hear(client) == "<end>")
        #expect(wire.proxy.accepted == 1)
        close(client)
    }

    @Test("frozen passes nothing and closes nothing; thawed it passes every byte that was held back")
    func freeze() throws {
        let wire = try Wire()
        defer { wire.close() }
        let (client, server) = try wire.pair()
        say("one ", client)
        #expect(hear(server) == "one ")
        wire.proxy.freeze()
        say("two", client)
        say("three", server)
        let late = try #require(LocalSocket.connected(to: wire.proxy.port))
        #expect(hear(server, within: 100) == "<nothing>" && hear(client, within: 100) == "<nothing>")
        #expect(wire.proxy.accepted == 1)
        try wire.proxy.thaw()
        #expect(hear(server) == "two" && hear(client) == "three")
        let last = try #require(LocalSocket.accepted(on: wire.listener))
        say("four", last)
        #expect(hear(late) == "four")
        // The open ones only.
        wire.proxy.freezeOpen()
        say("lost", client)
        let (fresh, reached) = try wire.pair()
        say("five", fresh)
        #expect(hear(reached) == "five" && hear(server, within: 100) == "<nothing>")
        for descriptor in [client, server, late, last, fresh, reached] { close(descriptor) }
    }

    @Test("refused are new connections, reset the open ones, on both sides")
    func refuseAndReset() throws {
        let wire = try Wire()
        defer { wire.close() }
        let (client, server) = try wire.pair()
        wire.proxy.refuse()
        let refused = try #require(LocalSocket.connected(to: wire.proxy.port))
        #expect(hear(refused) == "<errno \(ECONNREFUSED)>")
        say("on", client)
        #expect(hear(server) == "on")
        #expect(wire.proxy.reset() == 1 && wire.proxy.open == 0)
        #expect(hear(client) == "<reset>" && hear(server) == "<reset>")
        try wire.proxy.thaw()
        let (again, reached) = try wire.pair()
        say("back", again)
        #expect(hear(reached) == "back")
        for descriptor in [client, server, refused, again, reached] { close(descriptor) }
    }

    @Test("a trap cuts before or after the server has it, or holds it")
    func traps() throws {
        let wire = try Wire()
        defer { wire.close() }
        wire.proxy.set(TCPProxy.Trap(on: "COMMIT", .cut))
        let (first, early) = try wire.pair()
        say("BEGIN", first)
        #expect(hear(early) == "BEGIN")
        say("x COMMIT y", first)
        #expect(hear(early) == "<reset>" && hear(first) == "<reset>")

        wire.proxy.set(TCPProxy.Trap(on: "COMMIT", .cutAfterAnswer(ending: Array("done".utf8))))
        let (second, late) = try wire.pair()
        say("COMMIT", second)
        #expect(hear(late) == "COMMIT")
        say("nearly ", late)
        #expect(hear(second, within: 100) == "<nothing>")
        say("done", late)
        #expect(hear(late) == "<reset>" && hear(second) == "<reset>")

        wire.proxy.set(TCPProxy.Trap(on: "COMMIT", .freeze))
        let (third, held) = try wire.pair()
        say("COMMIT", third)
        #expect(hear(held, within: 100) == "<nothing>" && wire.proxy.sprung == 3)
        wire.proxy.set(nil)
        try wire.proxy.thaw()
        #expect(hear(held) == "COMMIT")

        wire.proxy.set(TCPProxy.Trap(on: "COMMIT", .holdAnswer))
        let (fourth, reached) = try wire.pair()
        say("COMMIT", fourth)
        #expect(hear(reached) == "COMMIT")
        say("done", reached)
        #expect(hear(fourth, within: 100) == "<nothing>")
        try wire.proxy.thaw()
        #expect(hear(fourth) == "done")
        for descriptor in [first, early, second, late, third, held, fourth, reached] { close(descriptor) }
    }
}
