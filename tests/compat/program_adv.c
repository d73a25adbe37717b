/* Recurrent networks, attention and the CTC loss, as a program for cuDNN 9 asks for them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

int main(void) {
  cudnnHandle_t handle;
  cudnnRNNDescriptor_t rnn;
  cudnnRNNDataDescriptor_t data;
  cudnnAttnDescriptor_t attention;
  cudnnSeqDataDescriptor_t sequence;
  cudnnCTCLossDescriptor_t ctc;
  require_libgpudnn();
  CHECK(cudnnAdvVersionCheck());
  CHECK(cudnnCreate(&handle));
  if (served("RNN", cudnnCreateRNNDescriptor(&rnn))) CHECK(cudnnDestroyRNNDescriptor(rnn));
  if (served("RNN data", cudnnCreateRNNDataDescriptor(&data))) CHECK(cudnnDestroyRNNDataDescriptor(data));
  if (served("attention", cudnnCreateAttnDescriptor(&attention))) CHECK(cudnnDestroyAttnDescriptor(attention));
  if (served("sequence data", cudnnCreateSeqDataDescriptor(&sequence))) CHECK(cudnnDestroySeqDataDescriptor(sequence));
  if (served("CTC loss", cudnnCreateCTCLossDescriptor(&ctc))) CHECK(cudnnDestroyCTCLossDescriptor(ctc));
  CHECK(cudnnDestroy(handle));
  puts("done");
  return 0;
}
