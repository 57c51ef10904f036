#!/usr/bin/env bash
# With kernels limited to AVX2, bfloat16 attention raises on a CPU that has AMX; float16 and other operations do not.
#
# Library: torch 2.13.0 (CPU), scaled_dot_product_attention with ATEN_CPU_CAPABILITY=avx2 and default.
# Guess:   the variable chooses slower kernels, for every type, and results differ by rounding only.
# Seen:    on a CPU with AVX-512 and AMX, bfloat16 attention of 64 or more positions raises "RuntimeError: pack_vnni2 is only
#          supported when avx512 is supported". Fewer positions, float16, float32, bfloat16 matmul, and the math backend
#          work. With AVX-512 kernels all work.
# The script fails when this changes. It needs a CPU with amx_bf16; on others it says so and exits with 77.
set -euo pipefail
grep -q amx_bf16 /proc/cpuinfo || { echo "not checked: this CPU has no amx_bf16" >&2; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cat >"$folder/attention.py" <<'PY'
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def raised(dtype, length):
    query = torch.randn(1, 2, length, 32, dtype=dtype)
    try:
        scaled_dot_product_attention(query, query, query, is_causal=True)
    except RuntimeError as error:
        return str(error)
    return None


capability = torch.backends.cpu.get_cpu_capability()
found = {(dtype, length): raised(dtype, length) for dtype in (torch.bfloat16, torch.float16, torch.float32) for length in (16, 64)}
print(capability, found)
assert [case for case, error in found.items() if error] == ([] if capability == "AVX512" else [(torch.bfloat16, 64)])
assert all("pack_vnni2" in error for error in found.values() if error)
query = torch.randn(1, 2, 64, 32, dtype=torch.bfloat16)
torch.matmul(query, query.transpose(-1, -2))
with sdpa_kernel(SDPBackend.MATH):
    scaled_dot_product_attention(query, query, query, is_causal=True)
PY
for capability in avx2 default avx512; do
  ATEN_CPU_CAPABILITY=$capability "$folder/venv/bin/python" "$folder/attention.py"
done
