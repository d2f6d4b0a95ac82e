#include "runtime/data/NpyHeader.h"

#include "runtime/plan/PlanInfo.h"

#include <cstring>
#include <optional>
#include <string_view>

namespace tessera::rt {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMostHeader = kMostNpyHeader - 12; // NumPy itself refuses more than 10000 by default
constexpr size_t kMostDimensions = 64;

struct TypeName {
  std::string_view text;
  plan::DType dtype;
};
// Of several names of a type, the first is the one that is written.
constexpr TypeName kTypes[] = {{"<f4", plan::F32},  {"<f8", plan::F64}, {"<f2", plan::F16}, {"<V2", plan::BF16},
                               {"|V2", plan::BF16}, {"<i8", plan::I64}, {"<i4", plan::I32}, {"|i1", plan::I8},
                               {"<i1", plan::I8},   {"|u1", plan::U8},  {"<u1", plan::U8},  {"|b1", plan::BOOL},
                               {"<b1", plan::BOOL}};

constexpr TypeName kIdTypes[] = {
    {"<u2", plan::DTYPE_INVALID}, {"<u4", plan::DTYPE_INVALID}, {"<u8", plan::DTYPE_INVALID}};

/// Reads the dictionary. Each method returns false, or nothing, if the text is not as expected.
class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  void skipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool take(char c) {
    skipSpace();
    if (at_ >= text_.size() || text_[at_] != c)
      return false;
    ++at_;
    return true;
  }
  bool atEnd() {
    skipSpace();
    return at_ == text_.size();
  }
  char peek() {
    skipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::optional<std::string_view> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"')
      return std::nullopt;
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string_view value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }
  std::optional<bool> boolean() {
    skipSpace();
    for (bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    return std::nullopt;
  }
  std::optional<int64_t> integer() {
    skipSpace();
    const size_t start = at_;
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value))
        return std::nullopt;
      ++at_;
    }
    if (at_ == start)
      return std::nullopt;
    if (at_ < text_.size() && text_[at_] == 'L') // Python 2 wrote long integers so
      ++at_;
    return value;
  }
  std::optional<std::vector<int64_t>> tuple() {
    std::vector<int64_t> values;
    if (!take('('))
      return std::nullopt;
    while (!take(')')) {
      const std::optional<int64_t> value = integer();
      if (!value || values.size() == kMostDimensions)
        return std::nullopt;
      values.push_back(*value);
      if (!take(',') && peek() != ')')
        return std::nullopt;
    }
    return values;
  }

private:
  std::string_view text_;
  size_t at_ = 0;
};

uint64_t littleEndian(const char *bytes, int count) {
  uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

Status wrong(const std::string &what) { return Status::error("not a usable .npy file: " + what); }

Status parseType(std::string_view text, bool ids, NpyHeader &header) {
  for (const TypeName &type : kTypes)
    if (type.text == text) {
      header.dtype = type.dtype;
      header.elementBytes = bytesPerElement(type.dtype);
      return Status();
    }
  for (const TypeName &type : kIdTypes)
    if (ids && type.text == text) {
      header.elementBytes = uint64_t(text[2] - '0');
      return Status();
    }
  const std::string name = quoted(std::string(text));
  if (!text.empty() && text[0] == '>')
    return wrong("its elements are big-endian (" + name + "); save it with astype('<" + std::string(text.substr(1, 3)) +
                 "')");
  return wrong("its element type " + name + " is not one of f2, f4, f8, i1, i4, i8, u1, bool" +
               (ids ? ", u2, u4, u8" : ""));
}

/// The dictionary's three entries, in any order, each once.
Status parseDictionary(std::string_view text, bool ids, NpyHeader &header) {
  Parser parser(text);
  bool haveType = false, haveOrder = false, haveShape = false;
  if (!parser.take('{'))
    return wrong("its header is not a dictionary");
  while (!parser.take('}')) {
    const std::optional<std::string_view> key = parser.string();
    if (!key || !parser.take(':'))
      return wrong("its header is malformed");
    if (*key == "descr" && !haveType) {
      if (parser.peek() == '[')
        return wrong("it holds records, not numbers");
      const std::optional<std::string_view> name = parser.string();
      if (!name)
        return wrong("its element type is malformed");
      TESSERA_RETURN_IF_ERROR(parseType(*name, ids, header));
      haveType = true;
    } else if (*key == "fortran_order" && !haveOrder) {
      const std::optional<bool> fortran = parser.boolean();
      if (!fortran)
        return wrong("its fortran_order is neither True nor False");
      if (*fortran)
        return wrong("it is in Fortran order; save numpy.ascontiguousarray of it");
      haveOrder = true;
    } else if (*key == "shape" && !haveShape) {
      std::optional<std::vector<int64_t>> shape = parser.tuple();
      if (!shape)
        return wrong("its shape is malformed");
      header.shape = std::move(*shape);
      haveShape = true;
    } else {
      return wrong("its header has an unexpected or repeated entry " + quoted(std::string(*key)));
    }
    if (!parser.take(',') && parser.peek() != '}')
      return wrong("its header is malformed");
  }
  if (!parser.atEnd())
    return wrong("text follows the dictionary of its header");
  if (!haveType || !haveOrder || !haveShape)
    return wrong("its header lacks descr, fortran_order or shape");
  return Status();
}

} // namespace

Result<NpyHeader> parseNpyHeader(const char *data, uint64_t size, bool ids) {
  if (size < 10 || std::string_view(data, kMagic.size()) != kMagic)
    return wrong("it does not begin with the NumPy magic");
  const int major = static_cast<unsigned char>(data[6]), minor = static_cast<unsigned char>(data[7]);
  if (major < 1 || major > 3 || minor != 0)
    return wrong("its format version is " + std::to_string(major) + "." + std::to_string(minor) +
                 ", known are 1.0 to 3.0");
  const uint64_t start = major == 1 ? 10 : 12;
  if (size < start)
    return wrong("it is truncated in its header");
  const uint64_t length = littleEndian(data + 8, major == 1 ? 2 : 4);
  if (length > kMostHeader)
    return wrong("its header of " + std::to_string(length) + " bytes is too long");
  if (size - start < length)
    return wrong("it is truncated in its header");
  NpyHeader header;
  header.dataOffset = start + length;
  TESSERA_RETURN_IF_ERROR(parseDictionary(std::string_view(data + start, length), ids, header));
  header.dataBytes = header.elementBytes;
  bool empty = false; // a zero makes the product zero, but all other sizes are checked as well
  for (int64_t extent : header.shape) {
    empty |= extent == 0;
    if (extent > 0 && (__builtin_mul_overflow(header.dataBytes, uint64_t(extent), &header.dataBytes) ||
                       header.dataBytes > (uint64_t{1} << 62)))
      return wrong("its shape " + shapeText(header.shape) + " is too large");
  }
  if (empty)
    header.dataBytes = 0;
  return header;
}

std::string formatNpyHeader(plan::DType dtype, const std::vector<int64_t> &shape) {
  std::string_view type = "|V1";
  for (const TypeName &known : kTypes)
    if (known.dtype == dtype) {
      type = known.text;
      break;
    }
  std::string text = "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  text += shape.size() == 1 ? ",), }" : "), }";
  // The data begins at a multiple of 64; the header ends with a newline.
  const bool longer = text.size() + 11 + 64 > 65535;
  const size_t start = longer ? 12 : 10;
  const size_t total = (start + text.size() + 1 + 63) / 64 * 64;
  text.append(total - start - text.size() - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header += longer ? '\2' : '\1';
  header += '\0';
  for (int i = 0; i < (longer ? 4 : 2); ++i)
    header += char(text.size() >> (8 * i) & 0xff);
  return header + text;
}

} // namespace tessera::rt
