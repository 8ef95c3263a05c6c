// The types of PostgreSQL that this client sends and reads in binary form. Their OIDs are fixed in the server's
// catalogue (src/include/catalog/pg_type.dat) and never change.

/// A type of PostgreSQL by its OID.
package struct PostgresType: Hashable, Sendable {
    /// The OID in `pg_type`.
    package let oid: UInt32

    /// Names a type by its OID.
    package init(oid: UInt32) { self.oid = oid }

    package static let bool = PostgresType(oid: 16)
    package static let bytea = PostgresType(oid: 17)
    package static let name = PostgresType(oid: 19)
    package static let int8 = PostgresType(oid: 20)
    package static let int2 = PostgresType(oid: 21)
    package static let int4 = PostgresType(oid: 23)
    package static let text = PostgresType(oid: 25)
    package static let oid = PostgresType(oid: 26)
    package static let json = PostgresType(oid: 114)
    package static let float4 = PostgresType(oid: 700)
    package static let float8 = PostgresType(oid: 701)
    package static let unknown = PostgresType(oid: 705)
    package static let bpchar = PostgresType(oid: 1042)
    package static let varchar = PostgresType(oid: 1043)
    package static let timestamptz = PostgresType(oid: 1184)
    package static let interval = PostgresType(oid: 1186)
    package static let uuid = PostgresType(oid: 2950)
    package static let jsonb = PostgresType(oid: 3802)

    /// The type of arrays of this type, or nil for a type that is not sent in arrays.
    var array: PostgresType? {
        switch self {
        case .bool: PostgresType(oid: 1000)
        case .bytea: PostgresType(oid: 1001)
        case .int8: PostgresType(oid: 1016)
        case .int2: PostgresType(oid: 1005)
        case .int4: PostgresType(oid: 1007)
        case .text: PostgresType(oid: 1009)
        case .json: PostgresType(oid: 199)
        case .float8: PostgresType(oid: 1022)
        case .timestamptz: PostgresType(oid: 1185)
        case .interval: PostgresType(oid: 1187)
        case .uuid: PostgresType(oid: 2951)
        case .jsonb: PostgresType(oid: 3807)
        default: nil
        }
    }

    /// Whether the binary form of a value is its UTF-8 text.
    var isText: Bool {
        switch self {
        case .text, .varchar, .bpchar, .name, .json, .unknown: true
        default: false
        }
    }
}
