// Keys as people hand them over (F11, F12, F13). The files are made by the openssl command, so that the forms are those
// that the world's tools write, not those that our own code would.

import Testing

@testable import TLS

@Suite("Keys")
struct KeyTests {
    static let files = KeyFiles()

    @Test("F11: every documented form of a P-256 key loads and signs", arguments: KeyFiles.goodForms)
    func goodForm(_ form: String) throws {
        let bytes = Self.files.form(form)
        let key = try P256PrivateKey(bytes)
        let message = Array("header.claims".utf8)
        let signature = try key.signES256(message)
        #expect(signature.count == 64)
        let publicKey = try P256PublicKey(Self.files.read("pub"))
        #expect(publicKey.verifyES256(signature, of: message))
        #expect(!publicKey.verifyES256(signature, of: Array("header.claimz".utf8)))
        #expect(try key.publicKey.pem == publicKey.pem)
    }

    @Test("F12, F13: every other key is refused in one line that says what it is", arguments: KeyFiles.badForms)
    func badForm(_ form: String, _ code: TLSError.Code, _ says: String) throws {
        let bytes = Self.files.form(form)
        let error = #expect(throws: TLSError.self) { try P256PrivateKey(bytes) }
        #expect(error?.code == code)
        #expect(error?.message.contains(says) == true, "\(error?.message ?? "accepted")")
        #expect(error?.message.contains("\n") == false)
        // Key text never appears: no run of 16 characters of the input does.
        let text = String(decoding: bytes.filter { $0 > 0x20 && $0 < 0x7F }, as: UTF8.self)
        if text.count > 64, let message = error?.message {
            let middle = text.dropFirst(text.count / 2).prefix(16)
            #expect(!message.contains(middle))
        }
    }

    @Test("A key that was cut off at any place is refused and never crashes")
    func truncated() throws {
        let pem = Self.files.read("pk8")
        let der = Self.files.read("pk8.der")
        for length in 0..<(pem.count - "-----END PRIVATE KEY-----\n".utf8.count) {
            #expect(throws: TLSError.self) { try P256PrivateKey(Array(pem.prefix(length))) }
        }
        for length in 0..<der.count {
            #expect(throws: TLSError.self) { try P256PrivateKey(Array(der.prefix(length))) }
        }
    }

    @Test("A changed byte never yields a key that signs for another public key")
    func damaged() throws {
        let der = Self.files.read("pk8.der")
        let publicPEM = try P256PrivateKey(der).publicKey.pem
        for index in der.indices {
            var changed = der
            changed[index] ^= 0x41
            guard let key = try? P256PrivateKey(changed) else { continue }
            let signature = try key.signES256([1, 2, 3])
            #expect(key.publicKey.verifyES256(signature, of: [1, 2, 3]))
            // A few bytes do not matter (version, attributes): then it is still the same key.
            #expect(try key.publicKey.pem == publicPEM, "byte \(index)")
        }
    }

    @Test("Generated keys survive their PEM form")
    func roundTrip() throws {
        let key = try P256PrivateKey.generate()
        let again = try P256PrivateKey(try key.pkcs8PEM)
        let signature = try again.signES256([7])
        #expect(key.publicKey.verifyES256(signature, of: [7]))
        let other = try P256PrivateKey.generate()
        #expect(!other.publicKey.verifyES256(signature, of: [7]))
    }

    @Test("Signatures of a wrong length or of zeros do not verify")
    func oddSignatures() throws {
        let key = try P256PrivateKey.generate()
        for count in [0, 1, 63, 65, 128] {
            #expect(!key.publicKey.verifyES256([UInt8](repeating: 1, count: count), of: [1]))
        }
        #expect(!key.publicKey.verifyES256([UInt8](repeating: 0, count: 64), of: [1]))
        #expect(!key.publicKey.verifyES256([UInt8](repeating: 0xFF, count: 64), of: [1]))
    }

    @Test("A file that is not there is named with the system's reason")
    func missingFile() throws {
        let error = #expect(throws: TLSError.self) { try P256PrivateKey(file: "/nonexistent/AuthKey.p8") }
        #expect(error?.code == .file)
        #expect(error?.message == "cannot read /nonexistent/AuthKey.p8: No such file or directory")
    }

    @Test("Base64 in both alphabets")
    func base64() {
        #expect(Base64.encode(Array("fo".utf8)) == "Zm8=")
        #expect(Base64.encodeURLSafe([0xFB, 0xFF]) == "-_8")
        #expect(Base64.decode("-_8".utf8) == [0xFB, 0xFF])
        #expect(Base64.decode("+/8=".utf8) == [0xFB, 0xFF])
        #expect(Base64.decode("A".utf8) == nil)
        #expect(Base64.decode("AA=A".utf8) == nil)
        #expect(Base64.decode("AAA==".utf8) == nil)
        for count in 0..<20 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37 + 200) }
            #expect(Base64.decode(Base64.encode(bytes).utf8) == bytes)
            #expect(Base64.decode(Base64.encodeURLSafe(bytes).utf8) == bytes)
        }
    }

    @Test("SHA-256 of the standard's example")
    func sha256() throws {
        let digest = try SHA256.digest(Array("abc".utf8))
        #expect(Base64.encode(digest) == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=")
    }
}
