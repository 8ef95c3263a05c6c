// Why a connection could not be had, or why a request was not answered; one struct for the module. Its text may be logged:
// what a peer sent is cut short and cleaned of everything that is not printable.

import TLS

/// A failure of a connection or of a request.
package struct HTTP2Fault: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of thing went wrong, for decisions; the text is for people.
    package enum Code: String, Sendable, CaseIterable {
        /// The host name has no address.
        case resolve
        /// No TCP connection; `native` is errno.
        case connect
        /// The proxy refused.
        case proxy
        /// The connection was not ready within the connect timeout.
        case connectTimeout
        /// The peer's certificate was not accepted; `native` is OpenSSL's X509_V_ERR number.
        case verification
        /// The peer refused us by a TLS alert; `native` is OpenSSL's reason number, 1000 and the number of the alert.
        case alert
        /// The TLS handshake failed otherwise.
        case handshake
        /// The peer does not agree to speak HTTP/2.
        case alpn
        /// The connection ended; `native` is errno, or 0 for an orderly end.
        case connectionLost
        /// The peer announced that it goes away; `native` is its HTTP/2 error code.
        case goAway
        /// The peer was silent and did not answer a PING.
        case pingTimeout
        /// The peer broke the rules of HTTP/2; `native` is nghttp2's error number.
        case protocolError
        /// The peer reset the stream; `native` is the HTTP/2 error code.
        case reset
        /// The request's deadline passed.
        case deadline
        /// The request was taken back by its owner before it was sent.
        case withdrawn
        /// The pool or the connection was closed on our side.
        case closed
        /// The request cannot be put into HTTP/2, for example because it is too large for a header block.
        case unsendable
    }

    package let code: Code
    /// errno, an HTTP/2 error code or a library's number, as `code` says; 0 when there is none.
    package let native: Int
    package let message: String

    package init(_ code: Code, native: Int = 0, _ message: String) {
        self.code = code
        self.native = native
        self.message = message
    }

    /// A fault of TLS in the words of this module.
    init(_ error: TLSError) {
        let code: Code =
            switch error.code {
            case .verification: .verification
            case .alert: .alert
            case .socket, .truncated: .connectionLost
            default: .handshake
            }
        self.init(code, native: error.native, error.message)
    }

    package var description: String { "\(code.rawValue): \(message)" }

    /// What the peer does not like about our certificate, in the words of RFC 8446; nil when it is something else.
    package var certificateAlert: String? {
        guard code == .alert else { return nil }
        return switch native - 1000 {
        case 42: "bad_certificate"
        case 43: "unsupported_certificate"
        case 44: "certificate_revoked"
        case 45: "certificate_expired"
        case 46: "certificate_unknown"
        case 48: "unknown_ca"
        case 49: "access_denied"
        case 116: "certificate_required"
        default: nil
        }
    }
}

/// The names of HTTP/2's error codes (RFC 9113 §7).
func errorName(_ code: UInt32) -> String {
    let names = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
        "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]
    return code < UInt32(names.count) ? names[Int(code)] : "error \(code)"
}

/// Text of a peer, fit for a log line: printable ASCII, at most 200 characters.
func cleanedText(_ bytes: UnsafeRawBufferPointer) -> String {
    unsafe String(decoding: bytes.prefix(200).map { $0 >= 0x20 && $0 < 0x7F ? $0 : 0x3F }, as: UTF8.self)
}
