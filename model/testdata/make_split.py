"""Splits GGUF fixtures of this folder in files, as the gguf package does it.

Run in this folder, after the scripts that make those:  python make_split.py
"""

import os
import shutil

import gguf

# name: file to split, tensors of a part, whether the first part has the metadata alone
MODELS = {
    "split": ("gemma2q/model.gguf", 9, False),
    "splitbare": ("falcon/model.gguf", 10, True),
}


def split(name, path, most, bare):
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    reader = gguf.GGUFReader(path)
    arch = reader.get_field("general.architecture").contents()
    w = gguf.GGUFWriter(f"{name}/tiny.gguf", arch, split_max_tensors=most, small_first_shard=bare)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":  # the header; what the writer adds
            continue
        kind = field.types[0]
        w.add_key_value(key, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    for name, spec in MODELS.items():
        split(name, *spec)
