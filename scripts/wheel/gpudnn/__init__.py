"""libgpudnn's libraries: `python -m gpudnn run PROGRAM` puts them in cuDNN's place.

SPDX-License-Identifier: Apache-2.0
"""
