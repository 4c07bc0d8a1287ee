#include "tensors/data_type.h"

#include <algorithm>
#include <iterator>

#include "tensors/half.h"

namespace acl_host {
namespace {

struct DataTypeRow {
  aclDataType type;
  const char* name;
  size_t size_bytes;  // 0: less than a byte, or no fixed size
};

constexpr DataTypeRow kDataTypes[] = {
    {ACL_FLOAT, "FLOAT", 4},
    {ACL_FLOAT16, "FLOAT16", 2},
    {ACL_INT8, "INT8", 1},
    {ACL_INT32, "INT32", 4},
    {ACL_UINT8, "UINT8", 1},
    {ACL_INT16, "INT16", 2},
    {ACL_UINT16, "UINT16", 2},
    {ACL_UINT32, "UINT32", 4},
    {ACL_INT64, "INT64", 8},
    {ACL_UINT64, "UINT64", 8},
    {ACL_DOUBLE, "DOUBLE", 8},
    {ACL_BOOL, "BOOL", 1},
    {ACL_STRING, "STRING", 0},
    {ACL_COMPLEX64, "COMPLEX64", 8},
    {ACL_COMPLEX128, "COMPLEX128", 16},
    {ACL_BF16, "BF16", 2},
    {ACL_INT4, "INT4", 0},
    {ACL_UINT1, "UINT1", 0},
    {ACL_COMPLEX32, "COMPLEX32", 4},
    {ACL_HIFLOAT8, "HIFLOAT8", 1},
    {ACL_FLOAT8_E5M2, "FLOAT8_E5M2", 1},
    {ACL_FLOAT8_E4M3FN, "FLOAT8_E4M3FN", 1},
    {ACL_FLOAT8_E8M0, "FLOAT8_E8M0", 1},
    {ACL_FLOAT6_E3M2, "FLOAT6_E3M2", 0},
    {ACL_FLOAT6_E2M3, "FLOAT6_E2M3", 0},
    {ACL_FLOAT4_E2M1, "FLOAT4_E2M1", 0},
    {ACL_FLOAT4_E1M2, "FLOAT4_E1M2", 0},
};

struct FormatRow {
  aclFormat format;
  const char* name;
  bool is_private;
};

constexpr FormatRow kFormats[] = {
    {ACL_FORMAT_NCHW, "NCHW", false},
    {ACL_FORMAT_NHWC, "NHWC", false},
    {ACL_FORMAT_ND, "ND", false},
    {ACL_FORMAT_NC1HWC0, "NC1HWC0", true},
    {ACL_FORMAT_FRACTAL_Z, "FRACTAL_Z", true},
    {ACL_FORMAT_NC1HWC0_C04, "NC1HWC0_C04", true},
    {ACL_FORMAT_HWCN, "HWCN", false},
    {ACL_FORMAT_NDHWC, "NDHWC", false},
    {ACL_FORMAT_FRACTAL_NZ, "FRACTAL_NZ", true},
    {ACL_FORMAT_NCDHW, "NCDHW", false},
    {ACL_FORMAT_NDC1HWC0, "NDC1HWC0", true},
    {ACL_FRACTAL_Z_3D, "FRACTAL_Z_3D", true},
    {ACL_FORMAT_NC, "NC", false},
    {ACL_FORMAT_NCL, "NCL", false},
    {ACL_FORMAT_FRACTAL_NZ_C0_16, "FRACTAL_NZ_C0_16", true},
    {ACL_FORMAT_FRACTAL_NZ_C0_32, "FRACTAL_NZ_C0_32", true},
    {ACL_FORMAT_FRACTAL_NZ_C0_2, "FRACTAL_NZ_C0_2", true},
    {ACL_FORMAT_FRACTAL_NZ_C0_4, "FRACTAL_NZ_C0_4", true},
    {ACL_FORMAT_FRACTAL_NZ_C0_8, "FRACTAL_NZ_C0_8", true},
};

const DataTypeRow* FindRow(aclDataType type) {
  const auto* const row = std::find_if(std::begin(kDataTypes), std::end(kDataTypes),
                                       [&](const DataTypeRow& candidate) { return candidate.type == type; });
  return row == std::end(kDataTypes) ? nullptr : row;
}

const FormatRow* FindRow(aclFormat format) {
  const auto* const row = std::find_if(std::begin(kFormats), std::end(kFormats),
                                       [&](const FormatRow& candidate) { return candidate.format == format; });
  return row == std::end(kFormats) ? nullptr : row;
}

}  // namespace

std::string DataTypeName(aclDataType type) {
  const DataTypeRow* const row = FindRow(type);
  return row ? row->name : "data type " + std::to_string(static_cast<int>(type));
}

std::vector<std::string> DataTypeNames() {
  std::vector<std::string> names;
  for (const DataTypeRow& row : kDataTypes) names.emplace_back(row.name);
  return names;
}

aclDataType FindDataType(const std::string& name) {
  const auto* const row = std::find_if(std::begin(kDataTypes), std::end(kDataTypes),
                                       [&](const DataTypeRow& candidate) { return name == candidate.name; });
  return row == std::end(kDataTypes) ? ACL_DT_UNDEFINED : row->type;
}

std::string FormatName(aclFormat format) {
  const FormatRow* const row = FindRow(format);
  return row ? row->name : "format " + std::to_string(static_cast<int>(format));
}

bool IsPrivateFormat(aclFormat format) {
  const FormatRow* const row = FindRow(format);
  return row && row->is_private;
}

}  // namespace acl_host

size_t aclDataTypeSize(aclDataType dataType) {
  const auto* const row = acl_host::FindRow(dataType);
  return row ? row->size_bytes : 0;
}

float aclFloat16ToFloat(aclFloat16 value) { return acl_host::Float16{value}.ToFloat(); }

aclFloat16 aclFloatToFloat16(float value) { return acl_host::Float16::FromFloat(value).bits; }
