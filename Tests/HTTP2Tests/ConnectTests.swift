// F06, F08: connections that never come about. Nothing is sent to a peer that is not verified, the reason is typed, and
// the attempts are few.

import HTTP2
import Reactor
import TLS
import TestSupport
import Testing

@Suite("Connecting")
struct ConnectTests {
    /// Two requests with a short deadline against a peer that cannot be used.
    private func refused(_ rig: Rig, _ loop: EventLoop) async -> HTTP2Fault? {
        rig.submit(1...2, timeout: .seconds(2))
        #expect(await rig.recorder.wait(for: 2))
        for tag in UInt64(1)...2 {
            #expect(rig.recorder.outcome(tag)?.notProcessedCode == rig.pool.snapshot.lastConnectFault?.code)
        }
        #expect(rig.handler.seen.isEmpty, "nothing was sent to an unverified peer")
        return rig.pool.snapshot.lastConnectFault
    }

    @Test("F06: an unknown authority, an expired certificate, a wrong name; then the right one")
    func verification() throws {
        try onLoop { actor in
            let certificates = try TestCertificates.shared.get()
            let expired = try certificates.authority.issue(validFrom: -7200, validTo: -3600)
            let otherName = try certificates.authority.issue(names: ["api.push.example"])
            let stranger = try CertificateIssuer(commonName: "Stranger").certificatePEM
            let cases: [(CertificateIssuer.Issued, [UInt8]?, String)] = [
                (certificates.server, stranger, "unable to get local issuer certificate"),
                (expired, nil, "certificate has expired"), (otherName, nil, "hostname mismatch"),
            ]
            for (issued, trust, reason) in cases {
                let rig = try Rig(actor.loop, serverTLS: try certificates.serverContext(issued), trust: trust)
                let fault = await refused(rig, actor.loop)
                #expect(fault?.code == .verification && fault?.native != 0)
                #expect(fault?.message == "the certificate of localhost was not accepted: \(reason)")
                rig.close()
            }
            let good = try Rig(actor.loop)
            good.submit(1)
            #expect(await good.recorder.wait(for: 1))
            good.close()
        }
    }

    @Test("the certificate's name may differ from the host that is connected to")
    func tlsName() throws {
        try onLoop { actor in
            let certificates = try TestCertificates.shared.get()
            let issued = try certificates.authority.issue(names: ["api.push.example"])
            let rig = try Rig(actor.loop, serverTLS: try certificates.serverContext(issued)) { pool, _ in
                pool.tlsName = "api.push.example"
            }
            defer { rig.close() }
            rig.submit(1)
            #expect(await rig.recorder.wait(for: 1))
            #expect(rig.handler.seen.first?.request[":authority"]?.hasPrefix("api.push.example:") == true)
        }
    }

    @Test("F08: a peer without ALPN, or one that prefers HTTP/1.1, is reported as not speaking HTTP/2")
    func noALPN() throws {
        try onLoop { actor in
            let certificates = try TestCertificates.shared.get()
            for offered in [[], ["http/1.1"]] as [[String]] {
                let rig = try Rig(actor.loop, serverTLS: try certificates.serverContext(alpn: offered))
                let fault = await refused(rig, actor.loop)
                #expect(fault?.code == .alpn)
                #expect(fault?.message == "localhost does not agree to speak HTTP/2 (ALPN h2)")
                rig.close()
            }
        }
    }

    @Test("F08: a peer that never answers the handshake; attempts are bounded in time and number")
    func silentPeer() throws {
        try onLoop { actor in
            let silent = try PlainListener(.silent)
            defer { silent.close() }
            let rig = try Rig(actor.loop, port: UInt16(silent.port)) { pool, _ in
                pool.connectTimeout = .milliseconds(600)
            }
            defer { rig.close() }
            let fault = await refused(rig, actor.loop)
            #expect(fault?.code == .connectTimeout)
            #expect(fault?.message.hasPrefix("no TLS handshake with localhost within 0.6 seconds") == true)
            #expect(silent.accepted >= 2 && silent.accepted <= 4)
        }
    }

    @Test("F07, F08: peers that close in the handshake, or answer it in plain text", arguments: [true, false])
    func noTLS(closes: Bool) throws {
        try onLoop { actor in
            let habit: PlainListener.Habit = closes ? .close : .says("HTTP/1.1 400 Bad Request\r\n\r\n")
            let peer = try PlainListener(habit)
            defer { peer.close() }
            let rig = try Rig(actor.loop, port: UInt16(peer.port)) { pool, _ in pool.backoffFirst = .milliseconds(100) }
            defer { rig.close() }
            let fault = await refused(rig, actor.loop)
            #expect(fault?.code == (closes ? .connectionLost : .handshake))
            #expect(fault?.message.contains("during the TLS handshake") == true)
            #expect(peer.accepted <= 20)
        }
    }

    @Test("a port where nobody listens and a name that does not exist")
    func unreachable() throws {
        try onLoop { actor in
            let gone = try PlainListener(.silent)
            let port = UInt16(gone.port)
            gone.close()
            let rig = try Rig(actor.loop, port: port)
            let fault = await refused(rig, actor.loop)
            #expect(fault?.code == .connect && fault?.message.hasSuffix("Connection refused") == true)
            rig.close()

            let nowhere = try Rig(actor.loop, port: 443) { pool, _ in pool.host = "no-such-host.invalid" }
            let unresolved = await refused(nowhere, actor.loop)
            #expect(unresolved?.code == .resolve)
            nowhere.close()
        }
    }

    @Test("a client that the server does not want learns so, as a fault of the connection")
    func refusedClient() throws {
        try onLoop { actor in
            let certificates = try TestCertificates.shared.get()
            let foreign = try CertificateIssuer(commonName: "Foreign").issue(names: [], usage: .client)
            let identity = try TLSIdentity(
                certificateChainPEM: foreign.certificatePEM, privateKeyPEM: foreign.privateKeyPEM)
            let rig = try Rig(
                actor.loop, serverTLS: try certificates.serverContext(clientCA: certificates.authorityPEM),
                identity: identity)
            defer { rig.close() }
            rig.submit(1...2, timeout: .seconds(2))
            #expect(await rig.recorder.wait(for: 2))
            #expect(rig.pool.snapshot.lastConnectFault?.code == .alert)
            #expect(rig.handler.seen.isEmpty)
        }
    }

    @Test("SETTINGS that come late: one request goes ahead, the rest follows")
    func lateSettings() throws {
        try onLoop { actor in
            let rig = try Rig(actor.loop) { _, server in server.initialSettings = nil }
            defer { rig.close() }
            rig.submit(1...50)
            #expect(await eventually(actor.loop) { rig.pool.inFlight == 1 })
            await pause(actor.loop, .milliseconds(100))
            #expect(rig.pool.inFlight == 1)
            #expect(await eventually(actor.loop) { rig.handler.opened.count == 1 })
            rig.handler.opened.first?.submitSettings(maxConcurrentStreams: 100)
            #expect(await rig.recorder.wait(for: 50))
            #expect(rig.recorder.statuses() == [200: 50])
        }
    }
}
