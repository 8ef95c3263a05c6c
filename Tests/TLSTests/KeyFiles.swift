// Key files of all kinds, made once by the openssl command, and the spellings in which people pass them on.

import Foundation

@testable import TLS

/// Keys made by the openssl command, held in memory.
struct KeyFiles: Sendable {
    static let goodForms = [
        "pkcs8", "pkcs8 without final newline", "CRLF", "CR", "literal \\n", "literal \\\\n", "literal \\r\\n",
        "blanks for breaks", "double quotes", "single quotes", "quotes and literal \\n", "base64 of the file",
        "base64 of the file, wrapped", "bare body", "bare body, one line", "bare body, no padding", "der",
        "base64 of der, quoted", "text around it", "byte-order mark", "sec1", "sec1 with parameters", "sec1 der",
        "key after certificate",
    ]

    static let badForms: [(String, TLSError.Code, String)] = [
        ("empty", .keyForm, "empty"), ("blank", .keyForm, "empty"), ("words", .keyForm, "not a private key"),
        ("rsa", .keyKind, "RSA"), ("rsa traditional", .keyKind, "RSA"), ("ed25519", .keyKind, "ED25519"),
        ("secp384r1", .keyKind, "secp384r1"), ("secp256k1", .keyKind, "secp256k1"),
        ("public key", .keyForm, "public key"), ("public key der", .keyForm, "public key"),
        ("certificate", .keyForm, "certificate"), ("certificate der", .keyForm, "certificate"),
        ("encrypted", .keyForm, "encrypted"), ("encrypted der", .keyForm, "encrypted"),
        ("encrypted sec1", .keyForm, "encrypted"), ("p12", .keyForm, ".p12"), ("p12 legacy", .keyForm, ".p12"),
        ("p12 base64", .keyForm, ".p12"), ("truncated", .keyForm, "cut off"), ("truncated body", .keyForm, "cut off"),
        ("parameters only", .keyForm, "cut off"), ("openssh", .keyForm, "OPENSSH"), ("utf-16", .keyForm, "UTF-16"),
        ("zeros", .keyForm, "empty"), ("noise", .keyForm, "not a private key"), ("html", .keyForm, "not a private key"),
    ]

    /// What the openssl command wrote, by file name.
    let files: [String: [UInt8]]

    init() {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("pgpush-keys-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        var files: [String: [UInt8]] = [:]
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try Self.make(in: folder)
            for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
                files[name] = [UInt8](try Data(contentsOf: folder.appendingPathComponent(name)))
            }
        } catch {
            preconditionFailure("the openssl command is needed for these tests: \(error)")
        }
        self.files = files
    }

    private static func make(in folder: URL) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.currentDirectoryURL = folder
        process.standardError = FileHandle.nullDevice
        process.arguments = [
            "-ec",
            """
            openssl ecparam -name prime256v1 -genkey -out sec1.with
            openssl ec -in sec1.with -out sec1
            openssl ec -in sec1.with -outform DER -out sec1.der
            openssl pkcs8 -topk8 -nocrypt -in sec1 -out pk8
            openssl pkcs8 -topk8 -nocrypt -in sec1 -outform DER -out pk8.der
            openssl ec -in sec1 -pubout -out pub
            openssl ec -in sec1 -pubout -outform DER -out pub.der
            openssl pkcs8 -topk8 -v2 aes-256-cbc -passout pass:x -in sec1 -out enc
            openssl pkcs8 -topk8 -v2 aes-256-cbc -passout pass:x -in sec1 -outform DER -out enc.der
            openssl ec -aes128 -passout pass:x -in sec1 -out enc.sec1
            openssl req -x509 -new -key sec1 -subj /CN=x -days 2 -out crt
            openssl x509 -in crt -outform DER -out crt.der
            openssl pkcs12 -export -inkey sec1 -in crt -passout pass:x -out p12
            openssl pkcs12 -export -legacy -inkey sec1 -in crt -passout pass: -out p12.legacy
            openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa
            openssl rsa -traditional -in rsa -out rsa.traditional
            openssl genpkey -algorithm ED25519 -out ed25519
            openssl ecparam -name secp384r1 -genkey -noout -out secp384r1
            openssl ecparam -name secp256k1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out secp256k1
            """,
        ]
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
    }

    func read(_ name: String) -> [UInt8] { files[name] ?? [] }

    private func text(_ name: String) -> String { String(decoding: read(name), as: UTF8.self) }

    /// The key text without its first and last line.
    private var bareBody: String {
        text("pk8").split(separator: "\n").dropFirst().dropLast().joined(separator: "\n")
    }

    // MARK: Spellings

    /// The bytes of one entry of `goodForms` or `badForms`.
    func form(_ name: String) -> [UInt8] {
        if let bytes = binaryForm(name) { return bytes }
        return Array((goodText(name) ?? badText(name)).utf8)
    }

    private func binaryForm(_ name: String) -> [UInt8]? {
        switch name {
        case "der": read("pk8.der")
        case "sec1 der": read("sec1.der")
        case "public key der": read("pub.der")
        case "certificate der": read("crt.der")
        case "encrypted der": read("enc.der")
        case "p12": read("p12")
        case "p12 legacy": read("p12.legacy")
        case "utf-16": [0xFF, 0xFE] + text("pk8").utf8.flatMap { [$0, 0] }
        case "zeros": [UInt8](repeating: 0, count: 100)
        case "noise": (0..<200).map { UInt8(truncatingIfNeeded: $0 &* 73 &+ 130) }
        case "byte-order mark": [0xEF, 0xBB, 0xBF] + read("pk8")
        default: nil
        }
    }

    private func goodText(_ name: String) -> String? {
        let pem = text("pk8")
        let trimmed = pem.trimmingCharacters(in: .newlines)
        func breaks(_ with: String) -> String { trimmed.replacingOccurrences(of: "\n", with: with) }
        switch name {
        case "pkcs8": return pem
        case "pkcs8 without final newline": return trimmed
        case "CRLF": return breaks("\r\n") + "\r\n"
        case "CR": return breaks("\r")
        case "literal \\n": return breaks("\\n") + "\\n"
        case "literal \\\\n": return breaks("\\\\n")
        case "literal \\r\\n": return breaks("\\r\\n")
        case "blanks for breaks": return breaks(" ")
        case "double quotes": return "\"\(pem)\""
        case "single quotes": return "'\(pem)'\n"
        case "quotes and literal \\n": return "\"\(breaks("\\n"))\\n\""
        case "base64 of the file": return Base64.encode(read("pk8"))
        case "base64 of the file, wrapped": return wrapped(Base64.encode(read("pk8")))
        case "bare body": return bareBody
        case "bare body, one line": return bareBody.replacingOccurrences(of: "\n", with: "")
        case "bare body, no padding": return bareBody.replacingOccurrences(of: "=", with: "")
        case "base64 of der, quoted": return "'\(Base64.encode(read("pk8.der")))'"
        case "text around it": return "Bag Attributes\n    friendlyName: me\n\(pem)\ntrailing words\n"
        case "sec1": return text("sec1")
        case "sec1 with parameters": return text("sec1.with")
        case "key after certificate": return text("crt") + pem
        default: return nil
        }
    }

    private func badText(_ name: String) -> String {
        switch name {
        case "blank": return " \n\t\r\n "
        case "words": return "please ask the admin for the key"
        case "rsa": return text("rsa")
        case "rsa traditional": return text("rsa.traditional")
        case "ed25519", "secp384r1", "secp256k1": return text(name)
        case "public key": return text("pub")
        case "certificate": return text("crt")
        case "encrypted": return text("enc")
        case "encrypted sec1": return text("enc.sec1")
        case "p12 base64": return wrapped(Base64.encode(read("p12")))
        case "truncated": return String(text("pk8").dropLast(60))
        case "truncated body": return String(bareBody.dropLast(40))
        case "parameters only": return "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
        case "openssh":
            return "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
        case "html": return "<html><body>404 Not Found</body></html>"
        default: return ""
        }
    }

    private func wrapped(_ text: String) -> String {
        stride(from: 0, to: text.utf8.count, by: 76)
            .map { String(text.dropFirst($0).prefix(76)) }.joined(separator: "\n")
    }
}
