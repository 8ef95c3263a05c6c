// Two ends of one socket pair talk TLS: agreement, verification in all its refusals (F06), ends of all kinds.

import Glibc
import Testing

@testable import TLS

@Suite("TLS streams")
struct StreamTests {
    static let authority = Result { try CertificateIssuer(commonName: "Stream test CA") }

    private func contexts(
        _ issued: CertificateIssuer.Issued, trust: [UInt8]? = nil, serverALPN: [String] = ["h2"],
        client: TLSIdentity? = nil, clientCA: [UInt8]? = nil
    ) throws -> (TLSClientContext, TLSServerContext) {
        let trusted = try trust ?? Self.authority.get().certificatePEM
        return (
            try TLSClientContext(trust: .pem(trusted), certificate: client),
            try TLSServerContext(
                certificateChainPEM: issued.certificatePEM, privateKeyPEM: issued.privateKeyPEM, clientCA: clientCA,
                alpn: serverALPN)
        )
    }

    @Test("Handshake, ALPN, data in both directions, orderly end")
    func agreement() throws {
        let (client, server) = try contexts(try Self.authority.get().issue())
        let pair = try StreamPair(client: client, server: server, host: "localhost")
        #expect(pair.handshake() == .done)
        #expect(pair.client.selectedALPN == "h2")
        #expect(pair.server.selectedALPN == "h2")
        #expect(pair.client.version == "TLSv1.3")
        let sent = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        #expect(pair.carry(sent, from: pair.client, to: pair.server) == sent)
        #expect(pair.carry(sent, from: pair.server, to: pair.client) == sent)
        pair.client.shutdown()
        #expect(pair.readOnce(pair.server) == .closed)
    }

    @Test("An IP address is verified as such")
    func address() throws {
        let (client, server) = try contexts(try Self.authority.get().issue(names: ["127.0.0.1"]))
        #expect(try StreamPair(client: client, server: server, host: "127.0.0.1").handshake() == .done)
        let other = try StreamPair(client: client, server: server, host: "127.0.0.2").handshake()
        #expect(other.clientError?.code == .verification)
    }

    @Test("F06: an unknown authority, an expired certificate and a wrong name are refused with OpenSSL's reason")
    func refusals() throws {
        let authority = try Self.authority.get()
        let good = try authority.issue()
        let stranger = try CertificateIssuer(commonName: "Someone else").certificatePEM
        let cases: [(CertificateIssuer.Issued, [UInt8]?, String, String)] = [
            (good, stranger, "localhost", "unable to get local issuer certificate"),
            (try authority.issue(validFrom: -7200, validTo: -3600), nil, "localhost", "certificate has expired"),
            (try authority.issue(validFrom: 3600, validTo: 7200), nil, "localhost", "certificate is not yet valid"),
            (try authority.issue(names: ["api.push.example"]), nil, "localhost", "hostname mismatch"),
            (try authority.issue(names: ["*.push.example"]), nil, "push.example", "hostname mismatch"),
            (try authority.issue(usage: .client), nil, "localhost", "unsuitable certificate purpose"),
        ]
        for (issued, trust, host, reason) in cases {
            let (client, server) = try contexts(issued, trust: trust)
            let outcome = try StreamPair(client: client, server: server, host: host).handshake()
            #expect(outcome.clientError?.code == .verification)
            #expect(outcome.clientError?.native != 0)
            #expect(outcome.clientError?.message == "the certificate of \(host) was not accepted: \(reason)")
            #expect(outcome.serverError?.code == .alert, "the server learns that it was refused")
        }
    }

    @Test("An empty trust file, a missing one and one without certificates stop the start")
    func badTrust() throws {
        for (trust, code) in [
            (TLSTrust.bundleFile("/nonexistent/ca.pem"), TLSError.Code.file), (.bundleFile("/dev/null"), .trust),
            (.pem(Array("nothing".utf8)), .trust), (.bundleFile("/tmp"), .file),
        ] {
            let error = #expect(throws: TLSError.self) { try TLSClientContext(trust: trust) }
            #expect(error?.code == code)
        }
    }

    @Test("Without a protocol in common there is no ALPN, and the handshake still completes")
    func noAgreement() throws {
        let issued = try Self.authority.get().issue()
        for offered in [[], ["http/1.1"]] as [[String]] {
            let (client, server) = try contexts(issued, serverALPN: offered)
            let pair = try StreamPair(client: client, server: server, host: "localhost")
            #expect(pair.handshake() == .done)
            #expect(pair.client.selectedALPN == nil)
        }
    }

    @Test("A client certificate is shown when asked for; a foreign one is refused")
    func clientCertificates() throws {
        let authority = try Self.authority.get()
        let issued = try authority.issue()
        let own = try authority.issue(commonName: "worker", names: [], usage: .client, userID: "com.example.app")
        let identity = try TLSIdentity(certificateChainPEM: own.certificatePEM, privateKeyPEM: own.privateKeyPEM)
        let (client, server) = try contexts(issued, client: identity, clientCA: authority.certificatePEM)
        let pair = try StreamPair(client: client, server: server, host: "localhost")
        #expect(pair.handshake() == .done)
        #expect(pair.server.peerCertificate == own.certificateDER)

        let foreign = try CertificateIssuer(commonName: "Foreign").issue(names: [], usage: .client)
        let other = try TLSIdentity(certificateChainPEM: foreign.certificatePEM, privateKeyPEM: foreign.privateKeyPEM)
        let (stranger, strict) = try contexts(issued, client: other, clientCA: authority.certificatePEM)
        let refused = try StreamPair(client: stranger, server: strict, host: "localhost")
        #expect(refused.handshake().serverError?.code == .verification)
        // In TLS 1.3 the client hears of it with its first read.
        #expect(refused.readOnce(refused.client).error?.code == .alert)
    }

    @Test("A key of another certificate is refused")
    func foreignKey() throws {
        let authority = try Self.authority.get()
        let (one, two) = (try authority.issue(), try authority.issue())
        let error = #expect(throws: TLSError.self) {
            try TLSIdentity(certificateChainPEM: one.certificatePEM, privateKeyPEM: two.privateKeyPEM)
        }
        #expect(error?.message == "the private key does not belong to the certificate")
    }

    @Test("F07: a peer that goes away in the handshake or later is an error, and nobody dies of SIGPIPE")
    func abruptEnds() throws {
        let (client, server) = try contexts(try Self.authority.get().issue())
        let early = try StreamPair(client: client, server: server, host: "localhost")
        #expect(early.client.handshake() == .wantRead)
        early.closeServer()
        let first = early.client.handshake()
        #expect(first.error?.code == .truncated || first.error?.code == .socket)

        let late = try StreamPair(client: client, server: server, host: "localhost")
        #expect(late.handshake() == .done)
        late.closeServer()
        let bytes = [UInt8](repeating: 1, count: 10_000)
        let written = bytes.withUnsafeBytes { late.client.write($0) }
        #expect(written.error?.code == .socket && written.error?.native == Int(EPIPE))
        #expect(late.readOnce(late.client).error != nil)
        late.client.shutdown()
    }

    @Test("A peer that does not speak TLS is an error")
    func notTLS() throws {
        let (client, server) = try contexts(try Self.authority.get().issue())
        let pair = try StreamPair(client: client, server: server, host: "localhost")
        #expect(pair.client.handshake() == .wantRead)
        let answer = Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)
        #expect(write(pair.serverDescriptor, answer, answer.count) == answer.count)
        #expect(pair.client.handshake().error?.code == .handshake)
    }

    @Test("An authority that was written out issues certificates again")
    func reloadedAuthority() throws {
        let first = try CertificateIssuer(commonName: "Kept CA")
        let again = try CertificateIssuer(
            certificatePEM: try first.certificatePEM, privateKeyPEM: try first.privateKeyPEM)
        let (client, server) = try contexts(try again.issue(), trust: try first.certificatePEM)
        #expect(try StreamPair(client: client, server: server, host: "localhost").handshake() == .done)
        #expect(throws: TLSError.self) { try again.issue(names: ["a,IP:1.2.3.4"]) }
    }
}
