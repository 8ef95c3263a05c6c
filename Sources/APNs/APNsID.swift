// The apns-id of a push is made of its notification and device, so nothing has to be stored: a version 8 UUID (RFC 9562)
//
//     NNNNNNNN-NNNN-8NNN-vDDD-DDDDDDDDDDDD
//
// N: 60 bits, the notification's id. D: 60 bits, the magnitude of the device number. v: 8, or a when the device number is
// negative (minus the position in the notification's list of tokens). Device number 0 is a channel. The SQL functions
// `apns_id`, `apns_id_notification` and `apns_id_device` do the same.

/// The two numbers of an apns-id.
package struct APNsID: Sendable, Hashable {
    /// Length of the text in bytes.
    package static let length = 36
    /// Both magnitudes lie below.
    package static let limit: Int64 = 1 << 60

    package let notification: Int64
    package let device: Int64

    /// nil when one of the numbers does not fit into 60 bits.
    package init?(notification: Int64, device: Int64) {
        guard APNsID.fits(notification, device) else { return nil }
        self.notification = notification
        self.device = device
    }

    /// Reads the text, in upper or lower case; nil when it is no such id.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count == APNsID.length else { return nil }
        var digits: [UInt8] = []
        for (index, byte) in bytes.enumerated() {
            if [8, 13, 18, 23].contains(index) {
                guard byte == UInt8(ascii: "-") else { return nil }
            } else {
                guard let digit = HexDigit.value(byte) else { return nil }
                digits.append(digit)
            }
        }
        guard digits.count == 32, digits[12] == 8, digits[16] == 8 || digits[16] == 10 else { return nil }
        let magnitude = APNsID.number(digits[17...])
        let isNegative = digits[16] == 10
        // Minus nothing would be a second spelling of nothing.
        guard !isNegative || magnitude > 0 else { return nil }
        self.init(
            notification: APNsID.number(digits[..<12] + digits[13..<16]), device: isNegative ? -magnitude : magnitude)
    }

    /// The text in lower case.
    package var text: String {
        var bytes = [UInt8](repeating: 0, count: APNsID.length)
        let written = unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe APNsID.write(notification: notification, device: device, into: buffer)
        }
        return written ? String(decoding: bytes, as: UTF8.self) : ""
    }

    /// Writes the text in lower case into the first 36 bytes of `buffer`, without allocating.
    ///
    /// Returns false, and writes nothing, when a number does not fit into 60 bits or the buffer is too short.
    @discardableResult package static func write(
        notification: Int64, device: Int64, into buffer: UnsafeMutableRawBufferPointer
    ) -> Bool {
        guard fits(notification, device), buffer.count >= length else { return false }
        let upper = UInt64(notification)
        let lower = device.magnitude
        // 64 bits each: the top 48 bits of N, the version, its last 12 bits; the variant, then D.
        let first = (upper >> 12) << 16 | 0x8000 | (upper & 0xfff)
        let second = (device < 0 ? 0xa : 0x8) << 60 | lower
        var position = 0
        for index in 0..<32 {
            if index == 8 || index == 12 || index == 16 || index == 20 {
                unsafe buffer[position] = UInt8(ascii: "-")
                position += 1
            }
            let word = index < 16 ? first : second
            unsafe buffer[position] = HexDigit.lower(word >> UInt64((15 - index & 15) * 4))
            position += 1
        }
        return true
    }

    private static func fits(_ notification: Int64, _ device: Int64) -> Bool {
        (0..<limit).contains(notification) && device > -limit && device < limit
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int64 {
        digits.reduce(0) { $0 << 4 | Int64($1) }
    }
}

/// Hexadecimal digits.
enum HexDigit {
    /// 0 to 15, nil for any other byte.
    static func value(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// The lower-case digit of the last four bits.
    static func lower(_ word: UInt64) -> UInt8 {
        let nibble = UInt8(truncatingIfNeeded: word & 0xf)
        return nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10
    }
}
