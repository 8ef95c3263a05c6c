// The one error of this module. It names the cause in one line that may be logged: never key text, never a passphrase.

/// A failure of a key, a certificate, a handshake or an encrypted connection.
package struct TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of thing went wrong, for decisions; the text is for people.
    package enum Code: String, Sendable {
        /// A file could not be read.
        case file
        /// The bytes are not a private (or public) key in any form we know, or the key is damaged.
        case keyForm
        /// A sound key of another kind than ECDSA on P-256.
        case keyKind
        /// A certificate or certificate chain could not be used.
        case certificate
        /// The trusted authorities could not be loaded.
        case trust
        /// The peer's certificate was not accepted; `native` is OpenSSL's X509_V_ERR number.
        case verification
        /// The peer ended the handshake or the connection with a TLS alert; `native` is OpenSSL's reason number.
        case alert
        /// The peer does not speak TLS as we do.
        case handshake
        /// The peer closed the connection without the closing message of TLS.
        case truncated
        /// The socket failed; `native` is errno.
        case socket
        /// OpenSSL refused something that should always work.
        case library
    }

    package let code: Code
    /// errno, X509_V_ERR_… or OpenSSL's reason number, as `code` says; 0 when there is none.
    package let native: Int
    /// One line: what is wrong and, where there is one, the remedy.
    package let message: String

    package init(_ code: Code, native: Int = 0, _ message: String) {
        self.code = code
        self.native = native
        self.message = message
    }

    package var description: String { message }
}
