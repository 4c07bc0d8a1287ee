// Tensors and attributes as messages. Elements are row-major and little-endian, as typed arrays hold them on x86 and ARM.

// Not every Node has a typed array for float16, and none has one for bfloat16: the data of other types is bytes.
const ARRAYS = {
  DATA_TYPE_FLOAT32: Float32Array,
  DATA_TYPE_FLOAT64: Float64Array,
  DATA_TYPE_INT8: Int8Array,
  DATA_TYPE_INT16: Int16Array,
  DATA_TYPE_INT32: Int32Array,
  DATA_TYPE_INT64: BigInt64Array,
  DATA_TYPE_UINT8: Uint8Array,
};
const SIZES = { DATA_TYPE_FLOAT16: 2, DATA_TYPE_BFLOAT16: 2, DATA_TYPE_COMPLEX64: 8, DATA_TYPE_COMPLEX128: 16 };

/** Returns a Tensor message whose data is the memory of the typed array; bytes need their data type. */
export function tensor(name, shape, array, dataType = Object.keys(ARRAYS).find((each) => array instanceof ARRAYS[each])) {
  return { name, dataType, shape, data: Buffer.from(array.buffer, array.byteOffset, array.byteLength) };
}

/** Returns a Tensor message without values, for inputs of which the operator needs only the shape. */
export function shapeOnly(name, shape, dataType = 'DATA_TYPE_FLOAT32') {
  return { name, dataType, shape };
}

/** Returns a Tensor message that refers to the program's table (`tableIndex`) or to an earlier step (`outputOf`). */
export function reference(name, shape, place, dataType = 'DATA_TYPE_FLOAT32') {
  return { name, dataType, shape, ...place };
}

/** Returns the elements of a Tensor message as a typed array of their own: message data may start at any byte. */
export function arrayOf({ dataType, data }) {
  const bytes = data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
  return new (ARRAYS[dataType] ?? Uint8Array)(bytes);
}

export function sizeBytes({ dataType, shape }) {
  return shape.reduce((product, size) => product * size, ARRAYS[dataType]?.BYTES_PER_ELEMENT ?? SIZES[dataType]);
}

/** Returns an Attribute message that holds a list of integers. */
export const ints = (...values) => ({ intsValue: { values } });
