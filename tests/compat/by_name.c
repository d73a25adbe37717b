/* A program that opens cuDNN at run time and looks its functions up by name, with and without the version.
 * usage: by_name LIST...   (files of names, one a line, in libgpudnn's spelling)
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char* const kParts[] = {"libcudnn_graph.so.9",
                                     "libcudnn_ops.so.9",
                                     "libcudnn_cnn.so.9",
                                     "libcudnn_adv.so.9",
                                     "libcudnn_heuristic.so.9",
                                     "libcudnn_engines_precompiled.so.9",
                                     "libcudnn_engines_runtime_compiled.so.9"};

static int find_all(void* library, const char* list, int* failures) {
  char name[256];
  int found = 0;
  FILE* file = fopen(list, "r");
  if (file == NULL) return 0;
  while (fgets(name, sizeof name, file) != NULL) {
    char cudnn[256];
    name[strcspn(name, "\r\n")] = '\0';
    if (strncmp(name, "gpudnn", 6) != 0) continue;
    snprintf(cudnn, sizeof cudnn, "cudnn%s", name + 6);
    if (dlsym(library, cudnn) == NULL || dlvsym(library, cudnn, "libcudnn.so.9") != dlsym(library, cudnn)) {
      fprintf(stderr, "%s was not found\n", cudnn);
      ++*failures;
    }
    ++found;
  }
  fclose(file);
  return found;
}

int main(int count, char** lists) {
  int failures = 0, found = 0, i;
  size_t part;
  size_t (*version)(void);
  int (*internal)(void);
  void (*last_error)(char*, size_t);
  char text[256] = "";
  void* library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  for (i = 1; i < count; ++i) found += find_all(library, lists[i], &failures);
  for (part = 0; part < sizeof kParts / sizeof kParts[0]; ++part) {
    if (dlopen(kParts[part], RTLD_NOW | RTLD_LOCAL) == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      ++failures;
    }
  }
  *(void**)&version = dlsym(library, "cudnnGetVersion");
  *(void**)&internal = dlsym(library, "cudnnSetBackdoorEx");
  *(void**)&last_error = dlsym(library, "cudnnGetLastErrorString");
  if (version == NULL || internal == NULL || last_error == NULL || version() != 91900) {
    fprintf(stderr, "the library that was opened is not the one to test\n");
    return 1;
  }
  if (internal() != 3000) ++failures;
  last_error(text, sizeof text);
  if (strstr(text, "cudnnSetBackdoorEx") == NULL) ++failures;
  printf("%d names, %d failures; %s\n", found, failures, text);
  return failures != 0 || found < 200;
}
