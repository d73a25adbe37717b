// The text of measured choices and the tuning cache: reading, merging, writing, and files that are broken or gone.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "gpudnn/gpudnn.h"
#include "ops/conv/select/tuning_cache.hpp"
#include "support/backend.hpp"
#include "support/child.hpp"

namespace gpudnn::conv {
namespace {

constexpr const char* kLine = "conv fwd f16 nhwc n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor";
constexpr const char* kOther = "conv wgrad f32 nchw n2c8h5w5 k8r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma";

Problem problem_of(const std::string& line) {
  std::string why;
  const auto problem = from_text(line, &why);
  EXPECT_TRUE(problem.has_value()) << line << ": " << why;
  return problem.value_or(Problem{});
}

// --- keys and rows --------------------------------------------------------------------------------------------------

TEST(TuningKey, LeavesOutWhatChangesNoChoice) {
  const std::string base = "conv fwd f16 nhwc n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32";
  const Problem key = tuning_key(problem_of(base + " math=tensor"));
  for (const char* tail :
       {" math=default", " math=tensor_convert", " math=tensor act=relu bias", " act=identity bias"}) {
    EXPECT_EQ(tuning_key(problem_of(base + tail)), key) << tail;
  }
  EXPECT_EQ(tuning_key(problem_of(base + " act=elu bias z")), tuning_key(problem_of(base + " act=tanh z")));
  EXPECT_EQ(tuning_key_without_epilogue(problem_of(base + " act=elu bias z")), key);
  Problem loose = problem_of(base);  // any stride will do where the extent is 1
  loose.w.strides[2] = 77;
  loose.w.strides[3] = 5;
  EXPECT_EQ(tuning_key(loose), key);
  EXPECT_EQ(tuning_key(key), key);
}

TEST(TuningKey, KeepsWhatMatters) {
  const Problem key = tuning_key(problem_of(kLine));
  for (const char* line : {"conv fwd f16 nhwc n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=fma",
                           "conv fwd bf16 nhwc n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
                           "conv fwd f16 nchw n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
                           "conv fwd f16 nhwc n2c8h5w5 k8r1s1 p0x0 t2x2 d1x1 g1 acc=f32 math=tensor",
                           "conv dgrad f16 nhwc n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
                           "conv fwd f16 nhwc n3c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
                           "conv fwd f16 nhwc n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor act=swish bias",
                           "conv fwd f16 nhwc n2c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor act=relu bias z"}) {
    EXPECT_NE(tuning_key(problem_of(line)), key) << line;
  }
}

// The key's text leads back to the key: else a row that was written would never be found.
TEST(TuningKey, SurvivesItsText) {
  for (const char* line :
       {kLine, kOther, "conv fwd f16 nhwc n2c8h5w1 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor act=gelu bias z",
        "conv fwd f32 nchw n1c3h224w224 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=default",
        "conv dgrad f32 nhwc n2c8h1w1 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor flip",
        "conv fwd f64 nchw n2c4d3h5w6 k8t1r3s3 p0x1x1 t1x1x1 d1x1x1 g2", "conv wgrad bf16 nhwc n2c8w9 k4s3 p1 t1 d2 g1",
        "conv fwd f16 strides=500,1,80,8 n2c8h5w5 k8r3s3 p1x1 t1x1 d1x1 g1 w:nhwc y:nhwc",
        "conv fwd f16 strides=500,1,80,8 n1c8h5w1 k8r3s1 p1x0 t1x1 d1x1 g1"}) {
    const Problem key = tuning_key(problem_of(line));
    EXPECT_EQ(tuning_key(problem_of(to_text(key))), key) << to_text(key);
  }
}

TEST(TunedRow, TextAndBack) {
  const TunedRow row = {"implicit_gemm_simt bm64_bn64 split=12", 812.4};
  EXPECT_EQ(row_text(row), "implicit_gemm_simt bm64_bn64 split=12 us=812.40");
  TunedRow read;
  ASSERT_TRUE(parse_row(row_text(row), &read));
  EXPECT_EQ(read, row);
  for (const char* broken :
       {"", "engine", "engine tile", " us=3", "engine tile us=", "engine tile us=x", "engine tile us=3 more",
        "engine tile us=-3", "engine tile us=nan", "engine tile us=0", "engine tile us=1e999"}) {
    EXPECT_FALSE(parse_row(broken, &read)) << "'" << broken << "'";
  }
}

TEST(TunedFile, ReadsSectionsAndSkipsWhatItCannotRead) {
  const std::string text =
      std::string("# a comment\n\ndevice sm_90 132\n") + kLine + " -> one tile=1 split_k=1 us=5.00  # why\n" + kLine +
      " -> two tile=0 split_k=2 us=6.00\r\nnonsense\nconv fwd f99 -> one tile=1 split_k=1 us=5.00\n" + kOther +
      " -> broken\ndevice sm_80 108\n" + kOther + " -> three tile=0 split_k=1 us=7.00";
  const TunedFile file(text);
  EXPECT_EQ(file.preamble, "# a comment\n\n");
  EXPECT_EQ(file.devices(), (std::vector<std::string>{"sm_80 108", "sm_90 132"}));
  const TunedRows rows = file.rows_of("sm_90 132");
  EXPECT_EQ(rows.size(), 1u);
  const auto* const found = rows.find(problem_of(std::string(kLine) + " act=relu bias"));
  ASSERT_NE(found, nullptr) << "a fused call finds the plain row";
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].choice, "one tile=1 split_k=1");
  EXPECT_EQ((*found)[1].choice, "two tile=0 split_k=2");
  EXPECT_EQ(rows.find(problem_of(kOther)), nullptr);
  EXPECT_NE(file.rows_of("sm_80 108").find(problem_of(kOther)), nullptr);
  EXPECT_EQ(file.rows_of("sm_70 80").size(), 0u);
}

TEST(TunedFile, MergesAndWritesInAFixedOrder) {
  TunedFile file("# kept\ndevice b\n" + std::string(kOther) + " -> x tile=0 split_k=1 us=1.00\ndevice a\n" + kOther +
                 " -> a line of another version\n");
  file.set("b", problem_of(kLine), {{"new a split=2", 3}, {"small b", 4}});
  const std::string expected = "# kept\ndevice a\n" + std::string(kOther) +
                               " -> a line of another version\ndevice b\n" + kLine + " -> new a split=2 us=3.00\n" +
                               kLine + " -> small b us=4.00\n" + kOther + " -> x tile=0 split_k=1 us=1.00\n";
  EXPECT_EQ(file.text(), expected);
  EXPECT_EQ(TunedFile(expected).text(), expected);
  EXPECT_TRUE(file.has("b", problem_of(kLine)));
  file.set("b", problem_of(kLine), {});
  EXPECT_FALSE(file.has("b", problem_of(kLine)));
  EXPECT_EQ(file.text().find("new"), std::string::npos);
}

// --- the cache ------------------------------------------------------------------------------------------------------

std::string content_of(const std::string& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}
void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class TuningCacheFile : public testing::Test {
 protected:
  TuningCacheFile() {
    std::string name = testing::TempDir() + "gpudnn_tuning_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    folder_ = name;
    path_ = folder_ + "/cache.txt";
    device_.backend = GPUDNN_BACKEND_CUDA;
    device_.major = 9;
    device_.multiprocessors = 132;
    device_.name = "NVIDIA Pretended";
  }
  ~TuningCacheFile() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
  std::string path_;
  Device device_;
  const std::vector<TunedRow> rows_ = {{"fast a split=4", 10.5}, {"small b", 12}};
};

TEST_F(TuningCacheFile, OutlivesTheProcess) {
  {
    TuningCache cache(path_);
    EXPECT_TRUE(cache.find(problem_of(kLine), device_).empty());
    cache.record(problem_of(kLine), device_, rows_);
    EXPECT_EQ(cache.find(problem_of(kLine), device_), rows_);
    EXPECT_EQ(cache.find(problem_of(std::string(kLine) + " act=relu bias"), device_), rows_);
    EXPECT_TRUE(cache.find(problem_of(kOther), device_).empty());
  }
  const TuningCache again(path_);
  EXPECT_EQ(again.find(problem_of(kLine), device_), rows_);
  const std::string text = content_of(path_);
  EXPECT_TRUE(text.starts_with("gpudnn tuning cache, format 1\n")) << text;
  EXPECT_NE(text.find("device NVIDIA Pretended, sm_90 132, libgpudnn "), std::string::npos) << text;
  EXPECT_EQ(files_in_folder(), 2u) << "the cache and its lock, and no temporary file";
}

TEST_F(TuningCacheFile, WithoutAFileItIsMemoryAlone) {
  TuningCache cache("");
  cache.record(problem_of(kLine), device_, rows_);
  EXPECT_EQ(cache.find(problem_of(kLine), device_), rows_);
  EXPECT_EQ(files_in_folder(), 0u);
}

TEST_F(TuningCacheFile, RowsOfOtherDevicesAndVersionsAreKeptAndIgnored) {
  const std::string foreign =
      std::string("device NVIDIA Other, sm_90 132, libgpudnn 0.2.0\n") + kLine +
      " -> foreign tile=1 split_k=1 us=1.00\ndevice NVIDIA Pretended, sm_90 132, libgpudnn 77.0.0\n" + kLine +
      " -> future tile=1 split_k=1 stages=4 us=1.00\n";
  write_file(path_, "gpudnn tuning cache, format 1\n" + foreign);
  TuningCache cache(path_);
  EXPECT_TRUE(cache.find(problem_of(kLine), device_).empty());
  cache.record(problem_of(kLine), device_, rows_);
  const std::string text = content_of(path_);
  for (const char* kept : {" -> foreign tile=1 split_k=1 us=1.00\n", " -> future tile=1 split_k=1 stages=4 us=1.00\n",
                           " -> fast a split=4 us=10.50\n"}) {
    EXPECT_NE(text.find(kept), std::string::npos) << kept << " is missing in\n" << text;
  }
}

TEST_F(TuningCacheFile, MergesWithWhatAnotherProcessWrote) {
  TuningCache one(path_);
  TuningCache two(path_);
  one.record(problem_of(kLine), device_, rows_);
  two.record(problem_of(kOther), device_, rows_);
  const TuningCache both(path_);
  EXPECT_EQ(both.find(problem_of(kLine), device_), rows_);
  EXPECT_EQ(both.find(problem_of(kOther), device_), rows_);
}

TEST_F(TuningCacheFile, ADeletedFileComesBackWithWhatThisProcessMeasured) {
  TuningCache cache(path_);
  cache.record(problem_of(kLine), device_, rows_);
  std::filesystem::remove(path_);
  EXPECT_EQ(cache.find(problem_of(kLine), device_), rows_) << "memory needs no file";
  cache.record(problem_of(kOther), device_, rows_);
  const TuningCache again(path_);
  EXPECT_EQ(again.find(problem_of(kLine), device_), rows_);
  EXPECT_EQ(again.find(problem_of(kOther), device_), rows_);
}

TEST_F(TuningCacheFile, IsWrittenOnlyForNews) {
  TuningCache cache(path_);
  cache.record(problem_of(kLine), device_, rows_);
  std::filesystem::remove(path_);
  std::vector<TunedRow> slower = rows_;
  slower[0].microseconds += 1;
  cache.record(problem_of(kLine), device_, slower);
  EXPECT_FALSE(std::filesystem::exists(path_)) << "the same choice at another time is no news";
  slower[0].choice = "fast b";
  cache.record(problem_of(kLine), device_, slower);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(TuningCacheFile, AFileOfAnotherKindIsIgnoredAndLeftAlone) {
  for (const std::string& text : {std::string("my diary\n"), std::string("gpudnn tuning cache, format 2\ndevice x\n"),
                                  std::string("gpudnn tuning cache, format 10\n"), std::string("\0\1\2\xff\n\n", 6)}) {
    write_file(path_, text);
    TuningCache cache(path_);
    EXPECT_TRUE(cache.find(problem_of(kLine), device_).empty());
    cache.record(problem_of(kLine), device_, rows_);
    EXPECT_EQ(cache.find(problem_of(kLine), device_), rows_);
    EXPECT_EQ(content_of(path_), text);
  }
}

// Whatever part of a file is left, it is read without harm and the next measurement mends it.
TEST_F(TuningCacheFile, ABrokenFileCostsItsBrokenRowsAlone) {
  {
    TuningCache cache(path_);
    cache.record(problem_of(kLine), device_, rows_);
    cache.record(problem_of(kOther), device_, rows_);
  }
  const std::string whole = content_of(path_);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    write_file(path_, whole.substr(0, length));
    TuningCache cache(path_);
    for (const TunedRow& row : cache.find(problem_of(kLine), device_)) {
      EXPECT_TRUE(row.choice == rows_[0].choice || row.choice == rows_[1].choice) << row.choice;
    }
    const std::vector<TunedRow> fresh = {{"fresh a", 1}};
    cache.record(problem_of(kOther), device_, fresh);
    EXPECT_EQ(cache.find(problem_of(kOther), device_), fresh);
    const bool header_is_whole = length == 0 || length > whole.find('\n');
    EXPECT_EQ(content_of(path_).find("fresh") != std::string::npos, header_is_whole) << length;
  }
}

TEST_F(TuningCacheFile, APlaceThatCannotBeWrittenIsNoError) {
  for (const std::string& path : {folder_, folder_ + "/no/such/folder/cache.txt", std::string("/dev/null")}) {
    TuningCache cache(path);
    cache.record(problem_of(kLine), device_, rows_);
    EXPECT_EQ(cache.find(problem_of(kLine), device_), rows_) << path;
  }
  EXPECT_TRUE(std::filesystem::is_directory(folder_));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

// Readers see a whole file at any time, and no writer loses another's rows.
TEST_F(TuningCacheFile, WritersAndReadersAtOnce) {
  constexpr int kWriters = 4;
  constexpr int kProblems = 12;
  const auto problem = [](int writer, int i) {
    return problem_of("conv fwd f16 nhwc n" + std::to_string(1 + writer * kProblems + i) +
                      "c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor");
  };
  std::atomic<bool> done{false};
  std::thread reader([&] {
    std::string text;
    while (!done) {
      if (read_text_file(path_, &text) && !text.empty()) {
        EXPECT_EQ(text.back(), '\n');
        EXPECT_TRUE(text.starts_with("gpudnn tuning cache"));
      }
    }
  });
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      TuningCache cache(path_);  // one each, as processes have
      for (int i = 0; i < kProblems; ++i) cache.record(problem(w, i), device_, rows_);
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  const TuningCache all(path_);
  for (int w = 0; w < kWriters; ++w) {
    for (int i = 0; i < kProblems; ++i) EXPECT_EQ(all.find(problem(w, i), device_), rows_) << w << ' ' << i;
  }
}

// --- from the interface ---------------------------------------------------------------------------------------------

// The variable is read once a process, so what the tests below look at happens in a process of its own.
TEST(TuningCacheChild, DISABLED_FindsAndRuns) {
  const gpudnnHandle_t handle = test::Backend::host().handle();
  const Problem problem = problem_of("conv fwd f32 nchw n1c2h5w5 k3r3s3 p1x1 t1x1 d1x1 g1");
  std::vector<Performance> rows;
  ASSERT_EQ(measure_algorithms_on_own_memory(handle, problem, &rows), GPUDNN_STATUS_SUCCESS);
  std::vector<float> x(50, 1), w(54, 1), y(75, 0);
  Args args;
  args.x = x.data();
  args.w = w.data();
  args.out = y.data();
  ASSERT_EQ(run(handle, problem, 1, nullptr, 0, args), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(run(handle, problem, 1, nullptr, 0, args), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(y[12], 18);
}

// Runs it with the variable naming `cache`; returns the log.
std::string run_child(const std::string& cache, const std::string& log) {
  std::filesystem::remove(log);
  EXPECT_EQ(test::run_in_child("TuningCacheChild.*",
                               {{"GPUDNN_LOGLEVEL", "3"}, {"GPUDNN_LOGDEST", log}, {"GPUDNN_TUNING_CACHE", cache}}),
            "");
  return content_of(log);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(TuningCacheFile, FindWritesItAndTheNextProcessGoesByIt) {
  const std::string log = folder_ + "/log.txt";
  const std::string first = run_child(path_, log);
  const std::string written = content_of(path_);
  EXPECT_NE(written.find("n1c2h5w5 k3r3s3"), std::string::npos) << written;
  EXPECT_NE(written.find(" -> host_"), std::string::npos) << written;
  // Once a plan, not once a call.
  EXPECT_EQ(count_of(first, "choice 1 of 2: host_"), 1u) << first;
  EXPECT_EQ(count_of(first, "source=tuning_cache <- taken"), 1u) << first;
  const std::string second = run_child(path_, log);
  EXPECT_EQ(count_of(second, "source=tuning_cache"), 1u) << second;
  // Find measures again, and either engine of the host may win: one row all the same.
  EXPECT_EQ(count_of(content_of(path_), "n1c2h5w5 k3r3s3"), 1u) << content_of(path_);
}

TEST_F(TuningCacheFile, ABrokenFileIsToldInTheLog) {
  write_file(path_, "my diary\n");
  const std::string log = run_child(path_, folder_ + "/log.txt");
  EXPECT_NE(log.find("gpudnn W"), std::string::npos) << log;
  EXPECT_NE(log.find("it is ignored"), std::string::npos) << log;
  EXPECT_EQ(content_of(path_), "my diary\n");
}

}  // namespace
}  // namespace gpudnn::conv
