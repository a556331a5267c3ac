"""Self-test of tools/tidy: a clean tree passes, and each broken tree is caught by its rule."""
import os
import tempfile

CLEAN = {
    "README.md": "# Sluice\n",
    "src/README.md": "| folder | one line | may include |\n| --- | --- | --- |\n"
                     "| `base/` | ground | – |\n| `files/` | formats | – |\n"
                     "| `text/` | tokens | files, text/jinja |\n"
                     "| `text/jinja/` | templates | – |\n| `ops/` | contracts | files |\n"
                     "| `device/` | which one | – |\n| `backend/` | devices | ops |\n\n"
                     "`text/bpe.cc`, `backend/<device>/<op>.cc`, `include/sluice/`, `README.md`, `f()`\n",
    "src/base/CMakeLists.txt": "sluice_folder(base)\n",
    "src/base/status.h": '#pragma once\n#include "sluice/status.h"\n',
    "src/files/CMakeLists.txt": "sluice_folder(files)\n",
    "src/files/gguf.h": '#pragma once\n#include <vector>\n#include "base/status.h"\n',
    "src/text/CMakeLists.txt": "sluice_folder(text DEPENDS files text/jinja LIBRARIES PCRE2)\n",
    "src/text/template.cc": '#include "text/jinja/ast.h"\n',
    "src/text/jinja/CMakeLists.txt": "sluice_folder(text/jinja)\n",
    "src/text/jinja/ast.h": '#pragma once\n#include "base/status.h"\n',
    "src/text/bpe.cc": '#include "files/gguf.h"\n#include "text/bpe.h"\nint f() {\n  return 1;\n}\n',
    "src/ops/CMakeLists.txt": "sluice_folder(ops DEPENDS files TEST_DEPENDS backend/cpu)\n",
    "src/backend/CMakeLists.txt": "add_subdirectory(cpu)\n",
    "src/backend/cpu/linear.cc": '#include <immintrin.h>\n#include "ops/linear.h"\n'
                                 '#include "backend/cpu/pool.h"\n#if defined(__AVX2__)\n#endif\n',
    # What names devices and decides nothing.
    "src/text/names.cc": '// #ifdef CUDA, DeviceKind::kCuda, getenv("CUDA_VISIBLE_DEVICES")\n'
                         'const char* kHelp = "auto, cpu, cuda[:i] or xpu[:i]";\n'
                         'const char* kHint = "CUDA_VISIBLE_DEVICES hides it";\n'
                         'const char* kKey[] = {"cpu", "device"};\n'
                         'bool f() { return view.device == facts.id && token.kind == other.kind; }\n',
    "src/text/names_test.cc": 'auto k = DeviceKind::kCuda;\nauto d = ResolveDevice("cuda", all);\n',
    "src/text/names_fixture.h": "#pragma once\nauto k = DeviceKind::kCpu;\n",
    "src/device/CMakeLists.txt": "sluice_folder(device)\n",
    "src/device/resolver.cc": 'auto a = DeviceKind::kXpu;\nauto b = getenv("ZE_AFFINITY_MASK");\n'
                              'auto c = backend->Probe(visible);\nauto d = ResolveDevice("", all);\n',
    "src/backend/cuda/device.cc": "#include <cuda.h>\nauto k = DeviceKind::kCuda;\n"
                                  "#ifdef __CUDA_ARCH__\n#endif\n",
    "src/backend/xpu/device.cc": "#include <CL/cl.h>\nauto k = DeviceKind::kXpu;\n",
    "include/sluice/status.h": "#pragma once\n#include <string>\n",
    "apps/sluice.cc": '#include "sluice/status.h"\nint main() { return 0; }\n',
    "tests/e2e/end_test.cc": '#include "runner.h"\n#include "text/bpe.h"\n',
    "tests/e2e/runner.h": "#pragma once\n",
}

LONG_BODY = "".join(f"  x += {i};\n" for i in range(80))

# (what is broken, files to add or replace, the rule that must speak, the path it must name)
BROKEN = [
    ("forbidden folder", {"src/text/a.cc": '#include "ops/x.h"\n'}, "include-folder", "src/text/a.cc"),
    ("forbidden, in <>", {"src/text/a.cc": "#include <ops/x.h>\n"}, "include-folder", "src/text/a.cc"),
    ("upward include", {"src/base/a.h": '#pragma once\n#include "files/gguf.h"\n'},
     "include-folder", "src/base/a.h"),
    ("backend from outside", {"src/ops/a.cc": '#include "backend/cpu/pool.h"\n'},
     "include-folder", "src/ops/a.cc"),
    ("backend from a backend", {"src/backend/cpu/a.cc": '#include "backend/cuda/x.h"\n'},
     "include-folder", "src/backend/cpu/a.cc"),
    ("app sees the engine", {"apps/a.cc": '#include "ops/x.h"\n'}, "include-folder", "apps/a.cc"),
    ("public header sees src", {"include/sluice/a.h": '#pragma once\n#include "base/status.h"\n'},
     "include-folder", "include/sluice/a.h"),
    ("library in quotes", {"src/text/a.cc": '#include "boost/asio.hpp"\n'},
     "include-folder", "src/text/a.cc"),
    ("bare name", {"src/text/a.cc": '#include "bpe.h"\n'}, "include-relative", "src/text/a.cc"),
    ("a test's header from elsewhere", {"tests/sim/a_test.cc": '#include "runner.h"\n'},
     "include-relative", "tests/sim/a_test.cc"),
    ("dot dot", {"src/text/a.cc": '#include "../base/status.h"\n'},
     "include-relative", "src/text/a.cc"),
    ("inner folder sees the outer", {"src/text/jinja/a.cc": '#include "text/bpe.h"\n'},
     "include-folder", "src/text/jinja/a.cc"),
    ("inner folder sees what the outer may", {"src/text/jinja/a.cc": '#include "files/gguf.h"\n'},
     "include-folder", "src/text/jinja/a.cc"),
    ("inner folder from elsewhere", {"src/ops/a.cc": '#include "text/jinja/ast.h"\n'},
     "include-folder", "src/ops/a.cc"),
    ("inner folder without row", {"src/files/zip/CMakeLists.txt": "sluice_folder(files/zip)\n"},
     "include-table", "src/files/zip"),
    ("inner folder that is no target", {"src/text/jinja/CMakeLists.txt": None},
     "include-table", "src/README.md"),
    ("inner CMake beyond its row",
     {"src/text/jinja/CMakeLists.txt": "sluice_folder(text/jinja DEPENDS files)\n"},
     "cmake-depends", "src/text/jinja/CMakeLists.txt"),
    ("cycle", {"src/README.md": CLEAN["src/README.md"].replace(
        "| formats | – |", "| formats | text |")}, "include-cycle", "src/README.md"),
    ("folder without row", {"src/model/CMakeLists.txt": "sluice_folder(model)\n"},
     "include-table", "src/model"),
    ("row without folder", {"src/README.md": CLEAN["src/README.md"] + "| `comm/` | x | – |\n"},
     "include-table", "src/README.md"),
    ("no table", {"src/README.md": "# src\n"}, "include-table", "src/README.md"),
    ("map names a file that is gone", {"src/README.md": CLEAN["src/README.md"]
                                       + "A request enters by `text/gone.cc`.\n"},
     "map-path", "src/README.md"),
    ("map names a pattern without a match", {"src/README.md": CLEAN["src/README.md"]
                                             + "`backend/<device>/<op>.cu`\n"},
     "map-path", "src/README.md"),
    ("no CMakeLists", {"src/text/CMakeLists.txt": None}, "folder-cmake", "src/text"),
    ("CMake beyond the table", {"src/text/CMakeLists.txt": "sluice_folder(text DEPENDS files ops)\n"},
     "cmake-depends", "src/text/CMakeLists.txt"),
    ("CMake split by a formatter",
     {"src/text/CMakeLists.txt": "sluice_folder(text TEST_DEPENDS backend / cpu)\n"},
     "cmake-depends", "src/text/CMakeLists.txt"),
    ("long file", {"src/text/a.cc": "int a;\n" * 601}, "file-lines", "src/text/a.cc"),
    ("long test", {"src/text/a_test.cc": "int a;\n" * 901}, "file-lines", "src/text/a_test.cc"),
    ("long kernel file", {"src/backend/cpu/a.cc": "int a;\n" * 901},
     "file-lines", "src/backend/cpu/a.cc"),
    ("long README", {"README.md": "x\n" * 151}, "file-lines", "README.md"),
    ("long public header", {"include/sluice/engine.h": "#pragma once\n" * 201},
     "file-lines", "include/sluice/engine.h"),
    ("long main", {"apps/a.cc": "int a;\n" * 151}, "file-lines", "apps/a.cc"),
    ("long function", {"src/text/a.cc": "int f(int x) {\n" + LONG_BODY + "  return x;\n}\n"},
     "function-lines", "src/text/a.cc"),
    ("engine sees a device", {"src/engine/step.cc": '#include "text/run.h"\n',
                              "src/engine/CMakeLists.txt": "sluice_folder(engine DEPENDS text)\n",
                              "src/README.md": CLEAN["src/README.md"].replace(
                                  "| `ops/`", "| `engine/` | loop | text |\n| `ops/`"),
                              "src/text/run.h": '#pragma once\n#include "device/device.h"\n',
                              "src/device/device.h": "#pragma once\n"},
     "engine-sees", "src/engine/step.cc"),
    ("units in a circle across rooms",
     {"src/files/room/a.cc": '#include "files/b.h"\n', "src/files/room/a.h": "#pragma once\n",
      "src/files/b.h": "#pragma once\n", "src/files/b.cc": '#include "files/room/a.h"\n'},
     "unit-cycle", "src/files/b"),
    ("folders that need each other, by no circle of units",
     {"src/files/room/a.cc": '#include "files/b.h"\n', "src/files/b.h": "#pragma once\n",
      "src/files/c.cc": '#include "files/room/d.h"\n', "src/files/room/d.h": "#pragma once\n"},
     "folder-cycle", "src/files"),
    ("a sampling parameter in too many files",
     {"include/sluice/sampling.h": "#pragma once\nstruct Sampling {\n  std::optional<double> min_p;\n};\n"}
     | {f"src/base/a{i}.cc": "int min_p;\n" for i in range(9)},
     "sampling-files", "include/sluice/sampling.h"),
    ("long method", {"src/text/a.cc": "class A {\n public:\n  int f(int x) const {\n" + LONG_BODY
                     + "  }\n  int y = 0;\n};\n"}, "function-lines", "src/text/a.cc"),
    ("long constructor", {"src/text/a.cc": "A::A(int x) : a_{x}, b_(x) {\n" + LONG_BODY + "}\n"},
     "function-lines", "src/text/a.cc"),
    ("long kernel", {"src/backend/cpu/a.cc": "int f(int x) {\n" + 3 * LONG_BODY + "}\n"},
     "function-lines", "src/backend/cpu/a.cc"),
    ("long Python function", {"tools/a.py": "def f(x):\n" + "    x += 1\n" * 80},
     "function-lines", "tools/a.py"),
    ("extra entry", {"notes.txt": "x\n"}, "top-level", "notes.txt"),
    ("banned name", {"src/text/string_utils.cc": "int a;\n"}, "banned-name",
     "src/text/string_utils.cc"),
    ("banned camel name", {"src/text/BlockManager.cc": "int a;\n"}, "banned-name",
     "src/text/BlockManager.cc"),
    ("device header", {"src/text/a.cc": "#include <immintrin.h>\n"}, "device-header", "src/text/a.cc"),
    ("cuda header", {"src/ops/a.cc": "#include <cuda_runtime.h>\n"}, "device-header", "src/ops/a.cc"),
    ("CUDA kernel that does not wait",
     {"src/backend/cuda/a.cu": 'extern "C" __global__ void f() {}  // WaitForInputs()\n'},
     "kernel-waits", "src/backend/cuda/a.cu"),
    ("device macro", {"src/text/a.cc": "#ifdef __AVX2__\n#endif\n"}, "device-macro", "src/text/a.cc"),
    ("OpenCL header", {"src/ops/a.cc": "#include <CL/cl.h>\n"}, "device-header", "src/ops/a.cc"),
    ("OpenCL header in device/", {"src/device/a.cc": "#include <CL/cl.h>\n"},
     "device-header", "src/device/a.cc"),
    ("OpenCL header in another backend", {"src/backend/cuda/a.cc": "#include <CL/cl.h>\n"},
     "device-header", "src/backend/cuda/a.cc"),
    ("cuda header in another backend", {"src/backend/xpu/a.cc": '#include "cuda_fp16.h"\n'},
     "device-header", "src/backend/xpu/a.cc"),
    ("SIMD header in another backend", {"src/backend/xpu/a.cc": "#include <immintrin.h>\n"},
     "device-header", "src/backend/xpu/a.cc"),
    *((f"macro: {line}", {"src/text/a.cc": f"{line}\n#endif\n"}, "device-macro", "src/text/a.cc")
      for line in ("#ifdef SLUICE_WITH_CUDA", "#if defined(USING_XPU)", "#if HAVE_OPENCL == 1",
                   "#ifndef __SYCL_DEVICE_ONLY__", "#ifdef CUDA", "# if  ENABLE_HIP")),
    ("macro in a folder's CMake",
     {"src/text/CMakeLists.txt": "sluice_folder(text DEPENDS files text/jinja)\nif(SLUICE_CUDA)\nendif()\n"},
     "device-macro", "src/text/CMakeLists.txt"),
    *((f"decides: {line}", {path: f"{line}\n"}, rule, path)
      for path in ("src/text/a.cc", "apps/a.cc", "include/sluice/a.cc")
      for line, rule in (
          ("if (facts.id.kind == device::DeviceKind::kCpu) f();", "device-kind"),
          ("case DeviceKind::kXpu: return 1;", "device-kind"),
          ("using enum device::DeviceKind;", "device-kind"),
          ("if (kind == kCuda) f();", "device-kind"),
          ("switch (device.facts().id.kind) {}", "device-kind"),
          ("if (a == device.facts().id.kind) f();", "device-kind"),
          ('if (name == "cuda") f();', "device-name"),
          ('if (name.starts_with("xpu:")) f();', "device-name"),
          ('if (ToString(kind) == "CUDA:0") f();', "device-name"),
          ('if (ToString(kind) != "cpu") f();', "device-name"),
          ('if (facts.name.starts_with("NVIDIA ")) f();', "device-name"),
          ('auto handle = dlopen("libcuda.so.1", 1);', "device-name"),
          ('auto mask = getenv("CUDA_VISIBLE_DEVICES");', "device-variable"),
          ('auto mask = std::getenv("ZE_AFFINITY_MASK");', "device-variable"),
          ('auto mask = Env("ONEAPI_DEVICE_SELECTOR");', "device-variable"),
          ("auto found = backend->Probe({});", "device-resolver"),
          ('auto found = device::ResolveDevice("", backends);', "device-resolver"))),
    ("a backend reads a mask", {"src/backend/cuda/a.cc": 'auto m = getenv("CUDA_VISIBLE_DEVICES");\n'},
     "device-variable", "src/backend/cuda/a.cc"),
    ("a backend resolves", {"src/backend/cuda/a.cc": 'auto d = ResolveDevice("", all);\n'},
     "device-resolver", "src/backend/cuda/a.cc"),
    ("no final newline", {"src/text/a.cc": "int a;"}, "final-newline", "src/text/a.cc"),
    ("no pragma once", {"src/text/a.h": "int a;\n"}, "pragma-once", "src/text/a.h"),
    ("unfinished", {"src/text/a.cc": "// TO" "DO: later\n"}, "unfinished", "src/text/a.cc"),
    ("huge file", {"tests/golden/a.bin": "x" * (2 * 1024 * 1024 + 1)},
     "file-bytes", "tests/golden/a.bin"),
    ("idle waiver", {"tools/tidy-waivers": "file-lines src/text/a.cc it was long once\n"},
     "waiver", "tools/tidy-waivers"),
    ("waiver without reason", {"tools/tidy-waivers": "file-lines src/text/a.cc\n"},
     "waiver", "tools/tidy-waivers"),
]

# Function bodies that the length heuristic must see: (source, [(name, first, last)]).
SHAPES = [
    ("int f() {\n  if (x) {\n  }\n}\n", [("f", 1, 4)]),
    ("namespace a {\nstruct B {\n  int x = 3;\n  int g() const { return x; }\n};\n}\n",
     [("g", 4, 4)]),
    ("A::A(int x)\n    : a_{x},\n      b_(x) {\n  c();\n}\n", [("A::A", 1, 5)]),
    ("const int kTable[] = {\n  1,\n  2,\n};\nint f() {\n}\n", [("f", 5, 6)]),
    ("template <typename T>\nauto f(T t = {}) -> int {\n  return R\"x(}{)x\";\n}\n", [("f", 1, 4)]),
    ("template <typename T = std::vector<int>, int N = (2 > 1)>\nT f() {\n}\n", [("f", 1, 3)]),
    ("#if A\nint f() {\n#else\nint f(int) {\n#endif\n  return '{';\n}\nint g() {\n}\n",
     [("f", 2, 7), ("g", 8, 9)]),
    ("bool operator==(const A& a, const A& b) {\n  return true;\n}\n", [("operator==", 1, 3)]),
    ("TEST(Suite, Name) {\n  EXPECT_EQ(1, 1'000);\n}\n", [("TEST", 1, 3)]),
    ("enum class E { kA, kB };\nstruct alignas(64) S {\n  int a{3};\n};\n", []),
    ("const auto kF = [](int x) {\n  return x;\n};\n", [("function", 1, 3)]),
]


def write_tree(root, files):
    for path, text in files.items():
        if text is None:
            continue
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as file:
            file.write(text)


def run(check, cpp_functions):
    failures = []
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, CLEAN)
        failures += [f"clean tree: {found}" for found in check(root)[0]]
    for what, files, rule, path in BROKEN:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**CLEAN, **files})
            if not any(found[0] == path and found[2] == rule for found in check(root)[0]):
                failures.append(f"{what}: expected {rule} in {path}, found {check(root)[0]}")
    with tempfile.TemporaryDirectory() as root:
        waived = {"src/text/a.cc": "int a;\n" * 601,
                  "tools/tidy-waivers": "# reasons\nfile-lines src/text/a.cc a generated table\n"}
        write_tree(root, {**CLEAN, **waived})
        failures += [f"waiver ignored: {found}" for found in check(root)[0]]
    for source, expected in SHAPES:
        found = cpp_functions(source)
        if [item[1:] for item in found] != [item[1:] for item in expected]:
            failures.append(f"functions of {source!r}: expected {expected}, found {found}")
    for failure in failures:
        print(failure)
    total = len(BROKEN) + len(SHAPES) + 2
    print(f"tidy self-test: {total} cases, {len(failures)} failures")
    return 1 if failures else 0
