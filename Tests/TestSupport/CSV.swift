// Reads what psql writes with --csv.

/// Rows of comma-separated values.
enum CSV {
    /// Splits a text into rows; a field that is exactly `null`, without quotes, becomes nil.
    static func rows(_ text: String, null: String) -> [[String?]] {
        var rows: [[String?]] = []
        var row: [String?] = []
        var field = ""
        var isQuoted = false
        var wasQuoted = false
        func value() -> String? { !wasQuoted && field == null ? nil : field }
        let scalars = Array(text.unicodeScalars)
        var index = 0
        while index < scalars.count {
            let scalar = scalars[index]
            index += 1
            if isQuoted {
                if scalar != "\"" {
                    field.unicodeScalars.append(scalar)
                } else if index < scalars.count, scalars[index] == "\"" {
                    field.append("\"")
                    index += 1
                } else {
                    isQuoted = false
                }
                continue
            }
            switch scalar {
            case "\"":
                isQuoted = true
                wasQuoted = true
            case ",", "\n":
                row.append(value())
                field = ""
                wasQuoted = false
                if scalar == "\n" {
                    rows.append(row)
                    row = []
                }
            default: field.unicodeScalars.append(scalar)
            }
        }
        return rows
    }
}
